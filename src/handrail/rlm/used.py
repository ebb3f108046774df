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
from handrail.rlm.repl.tools import QUERIES, completions_of
from handrail.rlm.repl.turns import REPL
from handrail.rlm.values import RLMChatCompletion, UsageSummary


def answered(events: Iterable[Recorded]) -> Iterator[RLMChatCompletion]:
    """Of the queries that have an answer on record."""
    for event in events:
        match event:
            case CallSettled(tool=tool, outcome="ok", result=ToolResult(content=dict() as content)) if tool in QUERIES:
                prompts = [None] * len(content.get("completions", ()))
                yield from completions_of({"prompts": prompts}, content)


async def unanswered(executor: Executor, events: Iterable[Recorded]) -> AsyncIterator[RLMChatCompletion]:
    """Of the queries that were cut off and that nobody takes up: without words, but with what they used."""
    for run in _cut_off(tuple(events)):
        used = await _used(executor, run)
        if used.total_calls:
            yield RLMChatCompletion(root_model="", prompt=None, response="", usage_summary=used, run=run)


def _cut_off(events: tuple[Recorded, ...]) -> Iterator[str]:
    """Their runs. A query without an end is taken up again, unless the cell that asked has one."""
    ended = {event.call_id: event for event in events if isinstance(event, CallSettled)}
    cells = tuple(f"{id}." for id, event in ended.items() if event.tool == REPL)
    for event in events:
        if not isinstance(event, CallIntended) or event.tool not in QUERIES:
            continue
        end = ended.get(event.call_id)
        has_answer = end is not None and end.outcome == "ok"
        is_taken_up = end is None and not event.call_id.startswith(cells)
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
    for event in events:
        if isinstance(event, ReplyGiven):
            said = next((each for each in event.messages or () if isinstance(each, AssistantMessage)), None)
            usage = Usage(input_tokens=event.input_tokens, output_tokens=event.output_tokens)
            summary.count(event.model, said.usage or usage if said is not None else usage)
    for completion in answered(events):
        summary.add(completion.usage_summary)
    async for completion in unanswered(executor, events):
        summary.add(completion.usage_summary)
    return summary
