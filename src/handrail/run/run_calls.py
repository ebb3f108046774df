"""The calls of one run: which may begin early, which are refused, and what became of each."""

from __future__ import annotations

import asyncio

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import LimitReached, UnknownTool
from handrail.core.events import Emit
from handrail.core.messages import InvocationMessage
from handrail.execute.executor import Executor
from handrail.run.limits import WRONG, Limits
from handrail.run.repeated_calls import RepeatedCalls
from handrail.tools.tool import Tool

Started = dict[str, asyncio.Task[ToolResult]]
"""By the id of the call."""


class RunCalls:
    """Settles what a model asks for, by the executor, within the limits of a run."""

    def __init__(self, executor: Executor, limits: Limits, context: Context, emit: Emit) -> None:
        self._executor = executor
        self._limits = limits
        self._context = context
        self._emit = emit
        self._repeats = RepeatedCalls(limits.same_failure, limits.same_answer)
        self._arrived = 0
        """Of the reply that is arriving."""
        self.wrong = 0
        """So far, those that nothing could be done with."""

    def await_reply(self) -> None:
        self._arrived = 0

    def early(self, call: ToolCall, emit: Emit) -> asyncio.Task[ToolResult] | None:
        """A read may begin when its last byte has arrived, while the model still speaks; `emit` gets its events."""
        self._arrived += 1
        over = self._arrived > self._limits.calls_per_turn
        if over or not self._takes_back(call) or self._repeats.refusal(call) is not None:
            return None
        return asyncio.create_task(self._executor.invoke(call, self._context, emit))

    async def settle(self, calls: tuple[InvocationMessage, ...], started: Started) -> list[ToolResult]:
        """All at once; if one cannot be settled, none goes on."""
        if len(calls) == 1 and not started:
            results = [await self._settle(calls[0].call, 0)]
        else:
            results = await self._together(calls, started)
        for message, result in zip(calls, results, strict=True):
            self.count(message.call, result)
        return results

    async def known(self, calls: tuple[InvocationMessage, ...]) -> list[ToolResult]:
        """After a cancellation: what the executor has written down for each call. What is made again when the run is
        taken up has no result until then."""
        ended = [message.call for message in calls if not self._executor.is_left(message.call, self._context)]
        return [await self._executor.answered(call, self._context) for call in ended]

    def count(self, call: ToolCall, result: ToolResult) -> None:
        """Remember how a call went, for what the limits say of the next."""
        self._repeats.note(call, result, reads=self._reads(call))
        self.wrong += result.outcome in WRONG

    async def _together(self, calls: tuple[InvocationMessage, ...], started: Started) -> list[ToolResult]:
        tasks = [
            started.get(message.id) or asyncio.create_task(self._settle(message.call, number))
            for number, message in enumerate(calls)
        ]
        try:
            return list(await asyncio.gather(*tasks))
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise

    async def _settle(self, call: ToolCall, number: int) -> ToolResult:
        refusal = self._repeats.refusal(call)
        if number >= self._limits.calls_per_turn:
            most = self._limits.calls_per_turn
            refusal = LimitReached(f"not run: at most {most} calls are taken from one reply; ask again for the rest")
        if refusal is not None:
            return await self._executor.refuse(call, refusal, self._context, self._emit)
        return await self._executor.invoke(call, self._context, self._emit)

    def _takes_back(self, call: ToolCall) -> bool:
        """Whether nothing came of it, were it begun and then not asked for: not so if it may call what has effects."""
        tool = self._tool(call)
        return tool is not None and tool.reads and tool.repeatable

    def _reads(self, call: ToolCall) -> bool:
        tool = self._tool(call)
        return tool is not None and tool.reads

    def _tool(self, call: ToolCall) -> Tool | None:
        try:
            return self._executor.tools_of(self._context.run).find(call.name)
        except UnknownTool:
            return None
