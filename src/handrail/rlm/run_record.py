"""What the journal has of a run, as much as is needed to take it up, and what its queries have used.

A query that was cut off has no answer that says what it cost. Its replies stand in the record of its own run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

import msgspec

from handrail.core.calls import ToolResult
from handrail.core.context import Context
from handrail.core.errors import UsageError
from handrail.core.events import CallIntended, CallSettled, Recorded, ReplyGiven
from handrail.core.ids import nested_id
from handrail.core.messages import AssistantMessage, Conversation, Usage, UserMessage
from handrail.core.redact import redact_text
from handrail.execute.executor import Executor
from handrail.rlm import prompts
from handrail.rlm.repl.notebook import finished_repl_call
from handrail.rlm.repl.query_tools import QUERIES, completions_of
from handrail.rlm.repl.turns import REPL, ReplArguments, ReplResult
from handrail.rlm.values import RLMChatCompletion, UsageSummary
from handrail.run.code.notebook import RecordedCodeCall
from handrail.run.history import conversation_of


@dataclass(frozen=True, slots=True)
class RlmRunRecord:
    conversation: Conversation = field(default_factory=Conversation)
    done: tuple[RecordedCodeCall, ...] = ()
    """The calls of the tool `repl` that have their results, in order."""
    completions: tuple[RLMChatCompletion, ...] = ()
    """The completions of the queries of its code, failed ones included."""
    said: tuple[tuple[str, Usage], ...] = ()
    """What each reply of the root model used, by the name of the model."""
    calls: tuple[CallIntended | CallSettled, ...] = ()
    """The calls of its code."""
    cut_off: frozenset[str] = frozenset()
    """The calls of the tool that failed, and whose code had called nothing by then."""

    def check(self, run: str, question: str | None) -> None:
        """Make sure that the run can be taken up with this question.

        Raises:
            UsageError: It answers another question, or was the REPL of several, of which only the last is known.
        """
        asked = [each.text for each in self.conversation.messages if isinstance(each, UserMessage)]
        if len(asked) > 1:
            raise UsageError(f"run {run!r} had several questions in one REPL, and cannot be resumed; start another")
        if asked and question and redact_text(question).strip() != redact_text(prompts.question_in(asked[0])):
            raise UsageError(f"run {run!r} was begun with another question; ask that, or none, or begin another run")

    def setup_id(self, run: str, number: int) -> str:
        """The id of the call that makes the REPL ready. A failed one is made again, unless it had effects."""
        id = nested_id(run, f"setup-{number}")
        for attempt in count(1):
            if id not in self.cut_off:
                break
            id = nested_id(run, f"setup-{number}-{attempt}")
        return id

    def task(self, run: str) -> str:
        """The context of a run that had none but its task.

        Raises:
            UsageError: It had another, or there is nothing on record.
        """
        if not self.conversation.messages:
            raise UsageError(f"there is nothing on record of run {run!r} to take up; give its context, and it is begun")
        first = next((each for each in self.conversation.messages if isinstance(each, UserMessage)), None)
        task = None if first is None else prompts.task_of(first.text)
        if task is None:
            raise UsageError(f"the context of run {run!r} is not on record, only its digest; give it again to continue")
        return task


async def read_run_history(executor: Executor, context: Context) -> RlmRunRecord:
    """Read it. From here on nobody else works on the run.

    Raises:
        LeaseHeld: Somebody does.
        UsageError: Its words were erased.
    """
    await executor.runs.known_calls(context)
    events = await executor.runs.history(context.run)
    completions = (*answered(events), *[each async for each in unanswered(executor, events)])
    return RlmRunRecord(
        conversation_of(events),
        tuple(_done(events)),
        completions,
        tuple(said(events)),
        _calls(events),
        _cut_off_setups(events),
    )


def _calls(events: Iterable[Recorded]) -> tuple[CallIntended | CallSettled, ...]:
    calls = (event for event in events if isinstance(event, CallIntended | CallSettled))
    return tuple(event for event in calls if event.tool != REPL)


def _done(events: Iterable[Recorded]) -> Iterator[RecordedCodeCall]:
    asked: dict[str, ReplArguments] = {}
    for event in events:
        match event:
            case CallIntended(tool=tool, call_id=id, arguments=dict() as arguments) if tool == REPL:
                asked[id] = ReplArguments.read(arguments)
            case CallSettled(tool=tool, call_id=id, outcome="ok", result=ToolResult(content=dict() as content)) if (
                tool == REPL and id in asked
            ):
                yield finished_repl_call(id, asked[id], msgspec.convert(content, ReplResult))


def _cut_off_setups(events: Iterable[Recorded]) -> frozenset[str]:
    called = [event.call_id for event in events if isinstance(event, CallIntended)]
    ended = {event.call_id for event in events if isinstance(event, CallSettled) and event.tool == REPL}
    ended -= {event.call_id for event in events if isinstance(event, CallSettled) and event.outcome == "ok"}
    return frozenset(id for id in ended if not any(each.startswith(f"{id}.") for each in called))


def said(events: Iterable[Recorded]) -> Iterator[tuple[str, Usage]]:
    """What a run's own model said, with its name: each reply, also one that was taken back. The answer that the REPL
    had is no reply of the model."""
    has_answer = False
    for event in events:
        match event:
            case CallSettled(tool=tool, result=ToolResult(content=dict() as content)) if tool == REPL:
                has_answer = content.get("final") is not None
            case ReplyGiven() if not has_answer:
                words = next((each for each in event.messages or () if isinstance(each, AssistantMessage)), None)
                usage = None if words is None else words.usage
                yield event.model, usage or Usage(input_tokens=event.input_tokens, output_tokens=event.output_tokens)


def answered(events: Iterable[Recorded]) -> Iterator[RLMChatCompletion]:
    """The queries that have an answer on record."""
    for event in events:
        match event:
            case CallSettled(tool=tool, outcome="ok", result=ToolResult(content=dict() as content)) if tool in QUERIES:
                prompts = [None] * len(content.get("completions", ()))
                yield from completions_of({"prompts": prompts}, content)


async def unanswered(
    executor: Executor, events: Iterable[Recorded], *, goes_on: bool = True
) -> AsyncIterator[RLMChatCompletion]:
    """Of the queries that were cut off and that nobody takes up: without words, but with what they used.

    `goes_on`: the run that asked them is taken up itself.
    """
    for run in _cut_off_queries(tuple(events), goes_on):
        used = await _used(executor, run)
        if used.total_calls:
            yield RLMChatCompletion(root_model="", prompt=None, response="", usage_summary=used, run=run)


def _cut_off_queries(events: tuple[Recorded, ...], goes_on: bool) -> Iterator[str]:
    """Their runs. A query without an end is taken up again with its run, unless the cell that asked has one."""
    ended = {event.call_id: event for event in events if isinstance(event, CallSettled)}
    cells = tuple(f"{id}." for id, event in ended.items() if event.tool == REPL)
    for event in events:
        if not isinstance(event, CallIntended) or event.tool not in QUERIES:
            continue
        end = ended.get(event.call_id)
        has_answer = end is not None and end.outcome == "ok"
        is_taken_up = goes_on and end is None and not event.call_id.startswith(cells)
        if has_answer or is_taken_up:
            continue
        run = nested_id(event.run, event.call_id)
        match event.arguments:
            case {"prompts": [*prompts]}:
                yield from (nested_id(run, str(at)) for at in range(len(prompts)))
            case _:
                yield run


async def _used(executor: Executor, run: str) -> UsageSummary:
    """The usage of a query, or of a child of the run with everything below it."""
    events = await executor.runs.history(run)
    summary = UsageSummary()
    for model, usage in said(events):
        summary.count(model, usage)
    for completion in answered(events):
        summary.add(completion.usage_summary)
    async for completion in unanswered(executor, events, goes_on=False):
        summary.add(completion.usage_summary)
    return summary
