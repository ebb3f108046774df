"""The calls of one run: which may begin early, which are refused, and what became of each."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Any

import msgspec

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import LimitReached, ToolError, UnknownTool
from handrail.core.events import Emit
from handrail.core.messages import InvocationMessage
from handrail.execute.executor import Executor
from handrail.run.limits import WRONG, Limits
from handrail.tools.tool import Tool

Started = dict[str, asyncio.Task[ToolResult]]
"""The started calls by their ids."""


class RunCalls:
    """Settles what a model asks for, by the executor, within the limits of a run."""

    def __init__(self, executor: Executor, limits: Limits, context: Context, emit: Emit) -> None:
        self._executor = executor
        self._limits = limits
        self._context = context
        self._emit = emit
        self._allowed: frozenset[str] | None = None
        """The exact names of the tools that the agent which speaks may call; None is all."""
        self._repeats = RepeatedCalls(limits.same_failure, limits.same_answer)
        self._arrived = 0
        """Of the reply that is arriving."""
        self.wrong = 0
        """So far, those that nothing could be done with."""

    def take_over(self, limits: Limits, context: Context, allowed: frozenset[str]) -> None:
        """Lets another agent speak from here on, which may call these tools."""
        self._limits, self._context, self._allowed = limits, context, allowed

    def await_reply(self) -> None:
        self._arrived = 0

    def early(self, call: ToolCall, emit: Emit) -> asyncio.Task[ToolResult] | None:
        """A read may begin when its last byte has arrived, while the model still speaks; `emit` gets its events."""
        self._arrived += 1
        over = self._arrived > self._limits.calls_per_turn
        if over or not self._takes_back(call) or self._refusal(call) is not None:
            return None
        return asyncio.create_task(self._executor.invoke(call, self._context, emit))

    async def settle_reply(self, calls: tuple[InvocationMessage, ...], started: Started) -> list[ToolResult]:
        """Settles all calls of a reply concurrently; if one raises, the others are cancelled."""
        if len(calls) == 1 and not started:
            results = [await self._settle_or_refuse(calls[0].call, 0, alone=True)]
        else:
            results = await self._together(calls, started)
        for message, result in zip(calls, results, strict=True):
            self.count(message.call, result)
        return results

    async def known(self, calls: tuple[InvocationMessage, ...]) -> list[ToolResult]:
        """After a cancellation: what the executor has written down for each call. What is made again when the run is
        taken up has no result until then."""
        ended = [message.call for message in calls if not self._executor.is_left(message.call, self._context)]
        return [await self._executor.result_of_left_call(call, self._context) for call in ended]

    def count(self, call: ToolCall, result: ToolResult) -> None:
        """Remember how a call went, for what the limits say of the next."""
        self._repeats.note(call, result, reads=self._reads(call))
        self.wrong += result.outcome in WRONG

    def begins_runs(self, call: ToolCall) -> bool:
        """Whether what the tool of a call does, or the reading of its words, is done in a run of its own."""
        tool = self._tool(call)
        return tool is not None and (tool.begins_runs or tool.definition.extract is not None)

    def has_end(self, call_id: str) -> bool:
        """Whether the answer to a call is on record."""
        ledger = self._executor.runs.find(self._context.run)
        return ledger is not None and ledger.has_end(call_id)

    async def _together(self, calls: tuple[InvocationMessage, ...], started: Started) -> list[ToolResult]:
        tasks = [
            started.get(message.id) or asyncio.create_task(self._settle_or_refuse(message.call, number))
            for number, message in enumerate(calls)
        ]
        try:
            return list(await asyncio.gather(*tasks))
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise

    async def _settle_or_refuse(self, call: ToolCall, number: int, *, alone: bool = False) -> ToolResult:
        refusal = self._refusal(call)
        if number >= self._limits.calls_per_turn:
            most = self._limits.calls_per_turn
            refusal = LimitReached(f"not run: at most {most} calls are taken from one reply; ask again for the rest")
        if refusal is not None:
            return await self._executor.refuse(call, refusal, self._context, self._emit)
        return await self._executor.invoke(call, self._context, self._emit, alone=alone)

    def _refusal(self, call: ToolCall) -> ToolError | None:
        """Why a call is not run."""
        tool = None if self._allowed is None else self._tool(call)
        if tool is not None and self._allowed is not None and tool.scoped_name not in self._allowed:
            return UnknownTool(call.name)  # it is another agent's
        return self._repeats.refusal(call)

    def _takes_back(self, call: ToolCall) -> bool:
        """Whether the call can start early: a read that leaves no trace if the model withdraws it."""
        tool = self._tool(call)
        return tool is not None and tool.reads and tool.repeatable and not tool.definition.sends_out

    def _reads(self, call: ToolCall) -> bool:
        tool = self._tool(call)
        return tool is not None and tool.reads

    def _tool(self, call: ToolCall) -> Tool | None:
        try:
            return self._executor.runs.tools_of(self._context.run).find(call.name)
        except UnknownTool:
            return None


class RepeatedCalls:
    """Counts for one run, by what was asked, how often it failed and how often the answer was the same."""

    def __init__(self, failures: int, answers: int) -> None:
        self._failures = failures
        self._answers = answers
        self._failed: dict[Hashable, int] = {}
        self._answered: dict[Hashable, tuple[Any, int]] = {}
        """The last answer of a read, and how often it came in a row."""

    def note(self, call: ToolCall, result: ToolResult, *, reads: bool) -> None:
        key = _key(call)
        if not result.is_error:
            self._failed.pop(key, None)
            if reads:
                last, times = self._answered.get(key, (None, 0))
                self._answered[key] = result.content, times + 1 if times and last == result.content else 1
        elif result.outcome not in ("cancelled", "needs_confirmation"):
            self._failed[key] = self._failed.get(key, 0) + 1

    def refusal(self, call: ToolCall) -> LimitReached | None:
        """Why a call is not worth running once more."""
        key = _key(call)
        if self._failed.get(key, 0) >= self._failures:
            what = f"has failed {self._failures} times with these arguments"
        elif self._answered.get(key, (None, 0))[1] >= self._answers:
            what = f"has given the same answer to these arguments {self._answers} times"
        else:
            return None
        return LimitReached(
            f"{call.name!r} {what}; it was not run again. Change the arguments, use another tool, or answer without it"
        )


def _key(call: ToolCall) -> Hashable:
    """What was asked, as it was written: a model that goes round in circles writes the same."""
    arguments = call.arguments
    return call.name, arguments if isinstance(arguments, str) else msgspec.json.encode(arguments, order="deterministic")
