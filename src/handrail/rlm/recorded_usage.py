"""What the queries of a run have used, out of its record: those that were answered, and those that came to nothing.

A query that was cut off has no answer that says what it cost. Its replies stand in the record of its own run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator

from handrail.core.calls import ToolResult
from handrail.core.events import CallIntended, CallSettled, Recorded, ReplyGiven
from handrail.core.ids import nested_id
from handrail.core.messages import AssistantMessage, Usage
from handrail.execute.executor import Executor
from handrail.rlm.repl.query_tools import QUERIES, completions_of
from handrail.rlm.repl.turns import REPL
from handrail.rlm.values import RLMChatCompletion, UsageSummary


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
    """Of the queries that have an answer on record."""
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
    for run in _cut_off(tuple(events), goes_on):
        used = await _used(executor, run)
        if used.total_calls:
            yield RLMChatCompletion(root_model="", prompt=None, response="", usage_summary=used, run=run)


def _cut_off(events: tuple[Recorded, ...], goes_on: bool) -> Iterator[str]:
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
    """By a query, or by a child of the run with all of its own."""
    events = await executor.history(run)
    summary = UsageSummary()
    for model, usage in said(events):
        summary.count(model, usage)
    for completion in answered(events):
        summary.add(completion.usage_summary)
    async for completion in unanswered(executor, events, goes_on=False):
        summary.add(completion.usage_summary)
    return summary
