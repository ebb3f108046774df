"""The tree of a run from its trajectory: a file of ours or of `rlms`, or the metadata of a completion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from handrail.core.errors import UsageError
from handrail.rlm.prompts import question_in
from handrail.rlm.record.trajectory import LoggedIteration, Trajectory
from handrail.rlm.report.tree import (
    BELOW,
    ReportBlock,
    ReportMessage,
    ReportQuery,
    ReportRun,
    ReportTurn,
)
from handrail.rlm.values import CodeBlock, RLMChatCompletion, RLMIteration, RLMMetadata, UsageSummary

DEEPEST = 8
"""Runs within runs that are shown."""


def from_trajectory(
    trajectory: Trajectory, completion: RLMChatCompletion | None = None, question: str = ""
) -> ReportRun:
    """The tree of a run, with its completion if that is known: a trajectory alone does not say what the root model
    used."""
    iterations = [each.iteration for each in trajectory.iterations]
    turns = _turns(trajectory.iterations, 0)
    answers = [turn.final for turn in turns if turn.final is not None]
    metadata, first = trajectory.metadata, iterations[0].prompt if iterations else ""
    ended = completion if completion is not None else RLMChatCompletion(root_model="", prompt="", response="")
    return ReportRun(
        model=metadata.root_model if metadata else ended.root_model or "unknown model",
        question=question or _question(said_of(first)),
        answer=ended.response if completion is not None else (answers[-1] if answers else None),
        partial=ended.partial,
        why=ended.error or "",
        turns=turns,
        seconds=ended.execution_time or sum(turn.seconds for turn in turns),
        used=ended.usage_summary if ended.usage_summary.model_usage_summaries else used_by_queries(turns),
        facts=_facts(metadata),
        started=trajectory.iterations[0].timestamp if trajectory.iterations else "",
        id=ended.run,
        notes=(*_several(trajectory.iterations), *trajectory.notes),
    )


def _several(logged: Sequence[LoggedIteration]) -> Iterator[str]:
    """A logger that is used again writes on in the same file, and counts from 1 again."""
    number = 1 + sum(after.number <= before.number for before, after in pairwise(logged))
    if number > 1:
        yield f"The file has the turns of {number:,} completions, one after another."


def from_completion(completion: RLMChatCompletion, question: str = "") -> ReportRun:
    """A completion that has its trajectory with it."""
    return _nested(completion, 0, question) or ReportRun(
        model=completion.root_model,
        question=question or _question(said_of(completion.prompt)),
        answer=completion.response,
        partial=completion.partial,
        why=completion.error or "",
        seconds=completion.execution_time,
        used=completion.usage_summary,
        id=completion.run,
        notes=("No trajectory was kept with this completion.",),
    )


def said_of(prompt: Any) -> tuple[ReportMessage, ...]:
    """A prompt in whatever form: text, messages, or something else as it is."""
    if isinstance(prompt, str):
        return (ReportMessage("user", prompt),)
    if isinstance(prompt, Sequence):
        return tuple(
            ReportMessage(str(each.get("role", "?")), _words(each)) for each in prompt if isinstance(each, Mapping)
        )
    return () if prompt is None else (ReportMessage("user", str(prompt)),)


def _words(message: Mapping[str, Any]) -> str:
    match message.get("content"):
        case str(text):
            return text
        case None:
            return str(message.get("tool_calls", ""))
        case [*parts]:
            return "\n".join(str(part.get("text", part)) if isinstance(part, Mapping) else str(part) for part in parts)
    return str(message.get("content"))


def _turns(logged: Iterable[LoggedIteration], depth: int) -> tuple[ReportTurn, ...]:
    turns = list(logged)
    prompts: list[tuple[ReportMessage, ...]] = [(), *(said_of(each.iteration.prompt) for each in turns)]
    return tuple(_turn(each, new, depth) for each, new in zip(turns, map(_new, pairwise(prompts)), strict=True))


def _new(prompts: tuple[tuple[ReportMessage, ...], tuple[ReportMessage, ...]]) -> tuple[ReportMessage, ...]:
    """What one prompt has that the one before had not; what the model itself said is shown where it said it."""
    before, now = prompts
    shared = 0
    while shared < min(len(before), len(now)) and before[shared] == now[shared]:
        shared += 1
    return tuple(each for each in now[shared:] if each.role != "assistant")


def _turn(logged: LoggedIteration, asked: tuple[ReportMessage, ...], depth: int) -> ReportTurn:
    iteration, left_out = logged.iteration, logged.left_out
    return ReportTurn(
        number=logged.number,
        reply=iteration.response,
        asked=asked,
        blocks=tuple(_block(block, depth) for block in iteration.code_blocks),
        final=iteration.final_answer,
        seconds=iteration.iteration_time or 0.0,
        notes=(f"{left_out:,} items of lists were left out when this turn was logged.",) if left_out else (),
    )


def _block(block: CodeBlock, depth: int) -> ReportBlock:
    result = block.result
    stderr, error = _error(result.stderr)
    return ReportBlock(
        code=block.code,
        stdout=result.stdout,
        stderr=stderr,
        error=error,
        seconds=result.execution_time,
        names=tuple((name, str(value)) for name, value in result.locals.items()),
        queries=tuple(_query(call, depth) for call in result.rlm_calls),
    )


def _error(stderr: str) -> tuple[str, str]:
    """In a trajectory an exception is the end of stderr: a traceback, or a line `NameError: …`."""
    at = stderr.rfind("Traceback (most recent call last)")
    last = stderr.rstrip().rpartition("\n")[2]
    if at >= 0:
        return stderr[:at], stderr[at:]
    kind, colon, _ = last.partition(":")
    return ("", stderr) if colon and kind.isidentifier() and kind.endswith(("Error", "Exception")) else (stderr, "")


def _query(call: RLMChatCompletion, depth: int) -> ReportQuery:
    nested = _nested(call, depth + 1)
    return ReportQuery(
        model=call.root_model,
        prompt=said_of(call.prompt),
        answer=call.response,
        seconds=call.execution_time,
        used=call.usage_summary,
        error=call.error or "",
        run=call.run,
        nested=nested,
    )


def _nested(call: RLMChatCompletion, depth: int, question: str = "") -> ReportRun | None:
    match call.metadata:
        case {"run_metadata": dict(), "iterations": list()} if depth > DEEPEST:
            return ReportRun(model=call.root_model, notes=(BELOW,))
        case {"run_metadata": dict(metadata), "iterations": list(iterations), **more}:
            try:
                told = [_logged(at, each) for at, each in enumerate(iterations, 1)]
                begun = RLMMetadata.from_dict(metadata)
            except UsageError as error:
                return ReportRun(model=call.root_model, notes=(f"its trajectory cannot be read: {error}",))
            turns = _turns(told, depth)
            missing = _number(more.get("left_out"), 0)
            return ReportRun(
                model=begun.root_model,
                question=question or _question(said_of(told[0].iteration.prompt if told else call.prompt)),
                answer=call.response,
                partial=call.partial,
                why=call.error or "",
                turns=turns,
                seconds=call.execution_time,
                used=call.usage_summary,
                facts=_facts(begun),
                id=call.run,
                notes=(f"Turns in the middle that were not kept: {missing:,}.",) if missing else (),
            )
    return None


def _logged(at: int, line: Any) -> LoggedIteration:
    """A turn in the metadata of a completion; its number is there if it was one of ours."""
    iteration = RLMIteration.from_dict(line)
    return LoggedIteration(_number(line.get("iteration"), at), "", iteration, _number(line.get("left_out"), 0))


def _number(value: Any, otherwise: int) -> int:
    return value if type(value) is int else otherwise


def used_by_queries(turns: Iterable[ReportTurn]) -> UsageSummary:
    """What the models were used for that code asked, and those below them."""
    total = UsageSummary()
    for query in (query for turn in turns for query in turn.queries):
        nested = query.nested
        total.add(nested.used if nested is not None and nested.used.total_calls else query.used)
    return total


def _question(prompt: tuple[ReportMessage, ...]) -> str:
    return question_in(next((each.text for each in prompt if each.role == "user"), ""))


def _facts(metadata: RLMMetadata | None) -> tuple[tuple[str, str], ...]:
    if metadata is None:
        return ()
    return (
        ("backend", metadata.backend),
        ("environment", metadata.environment_type),
        ("most turns", str(metadata.max_iterations)),
        ("depth", str(metadata.max_depth)),
        *((("other backends", ", ".join(metadata.other_backends)),) if metadata.other_backends else ()),
    )
