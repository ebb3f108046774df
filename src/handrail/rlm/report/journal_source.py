"""The tree of a run from the journal: what was said, run and asked, and below it the runs of its questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from handrail.core.errors import HandrailError, UsageError
from handrail.core.events import Recorded, RunFinished, RunStarted
from handrail.core.messages import AssistantMessage, InvocationMessage, Message, ResultMessage, Usage, UserMessage
from handrail.rlm.prompts import question_in
from handrail.rlm.repl import turns as told
from handrail.rlm.report.trajectory_source import DEEPEST, used_by_queries
from handrail.rlm.report.tree import (
    BELOW,
    ReportBlock,
    ReportMessage,
    ReportProof,
    ReportQuery,
    ReportRun,
    ReportTurn,
)
from handrail.rlm.run_record import said
from handrail.rlm.values import UsageSummary
from handrail.run.history import conversation_of

History = Callable[[str], Iterable[Recorded]]
"""All events of a run, by its id: `Reader.events`."""


def from_journal(history: History, run: str, proof: ReportProof | None = None) -> ReportRun:
    """The tree of a run; of one whose words were erased, what is left of it.

    Raises:
        JournalError: The journal cannot be read.
    """
    return _run(history, run, proof, 0)


def _run(history: History, run: str, proof: ReportProof | None, depth: int) -> ReportRun:
    events = list(history(run))
    started = _time(next((event.at for event in events if isinstance(event, RunStarted)), 0))
    try:
        conversation = conversation_of(events)
    except UsageError as error:
        why = str(error)
        return ReportRun(
            model="unknown model", seconds=_seconds(events), started=started, id=run, proof=proof, notes=(why,)
        )
    found = told.turns_of(conversation.messages)
    turns = tuple(_turn(run, number, turn, history, depth) for number, turn in enumerate(found, 1))
    last = conversation.messages[-1] if conversation.messages else None
    final = next((turn.final for turn in reversed(turns) if turn.final is not None), None)
    ended = next((event.reason for event in reversed(events) if isinstance(event, RunFinished)), "cut off")
    replies = [(model, usage) for model, usage in said(events) if model]
    used = UsageSummary()
    for model, usage in replies:
        used.count(model, usage)
    used.add(used_by_queries(turns))
    return ReportRun(
        model=replies[0][0] if replies else "unknown model",
        question=next((question_in(each.text) for each in conversation.messages if isinstance(each, UserMessage)), ""),
        answer=last.text if final is None and isinstance(last, AssistantMessage) else final,
        partial=final is None,
        why="" if final is not None else ended,
        turns=turns,
        seconds=_seconds(events),
        used=used,
        started=started,
        id=run,
        proof=proof,
        notes=() if events else ("The journal has no such run.",),
    )


def _turn(run: str, number: int, turn: told.ReplTurn, history: History, depth: int) -> ReportTurn:
    asked, ran = turn.asked, turn.ran
    return ReportTurn(
        number=number,
        reply=turn.said.text,
        blocks=tuple(
            _block(run, code, block, history, depth) for code, block in zip(asked.blocks, ran.blocks, strict=False)
        ),
        final=ran.final.text if ran.final is not None else None,
        seconds=max(turn.result.at - turn.said.at, 0) / 1000 if turn.result.at else sum(b.seconds for b in ran.blocks),
        used=UsageSummary.of(turn.said.model, turn.said.usage or Usage()),
        notes=ran.notices,
    )


def _block(run: str, code: str, block: told.ReplBlock, history: History, depth: int) -> ReportBlock:
    dropped = f"\n[{block.dropped:,} more characters were printed and not kept]" if block.dropped else ""
    return ReportBlock(
        code=code,
        stdout=block.stdout + dropped,
        stderr=block.stderr,
        error=block.error,
        seconds=block.seconds,
        names=tuple(block.names.items()),
        queries=tuple(_query(run, query, history, depth) for query in block.queries),
    )


def _query(run: str, query: told.ReplQuery, history: History, depth: int) -> ReportQuery:
    """The question in short, as the block has it; with the whole of it, where its own run is on record."""
    # What a run began has an id below its own; another id, in a record that somebody made up, might lead around.
    messages = _of_its_own(query.run, history) if query.run.startswith(f"{run}.") else ()
    words = tuple(_report_message(message) for message in messages)
    begins = next((at for at, each in enumerate(words) if each.role == "assistant"), len(words))
    is_run = any(isinstance(each, InvocationMessage) and each.call.name == told.REPL for each in messages)
    nested = _below(history, query, depth + 1) if is_run else None
    return ReportQuery(
        model=query.model,
        prompt=words[:begins] or (ReportMessage("user", query.prompt),),
        answer=words[-1].text if begins < len(words) and words[-1].role == "assistant" else query.response,
        seconds=query.seconds,
        used=query.completion().usage_summary
        if nested is None or not nested.used.model_usage_summaries
        else nested.used,
        error=query.error or "",
        run=query.run,
        between=() if is_run else words[begins:-1],
        nested=nested,
    )


def _below(history: History, query: told.ReplQuery, depth: int) -> ReportRun:
    return _run(history, query.run, None, depth) if depth <= DEEPEST else ReportRun(model=query.model, notes=(BELOW,))


def _of_its_own(run: str, history: History) -> tuple[Message, ...]:
    try:
        return conversation_of(history(run)).messages
    except HandrailError:
        return ()  # erased: what the block has of it is left


def _report_message(message: Message) -> ReportMessage:
    match message:
        case InvocationMessage(call=call):
            return ReportMessage("call", f"{call.name}({call.arguments})")
        case ResultMessage(result=result):
            return ReportMessage("result", result.text)
        case AssistantMessage():
            return ReportMessage("assistant", message.text)
        case UserMessage():
            return ReportMessage("user", message.text)
    return ReportMessage("system", message.text)


def _seconds(events: list[Recorded]) -> float:
    return (events[-1].at - events[0].at) / 1000 if events else 0.0


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds") if at else ""
