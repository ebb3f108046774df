"""What the tests of this folder share: a clock that is moved by hand, and short ways to write a call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from handrail.core.calls import ToolResult
from handrail.execute.dedupe.matching import Deduplicator
from handrail.execute.dedupe.reuse import CallReuse


class ManualClock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError


def answer(content: Any = "ok", call: str = "call_1", name: str = "read") -> ToolResult:
    return ToolResult(call, name, content)


async def until_all_tasks_wait() -> None:
    """Return once every task that could run has come to its next wait: tasks start in the order they were made."""

    async def nothing() -> None:
        pass

    for _ in range(3):
        await asyncio.create_task(nothing())


class ReuseCaller:
    """Calls through one `CallReuse`, with the usual flags. A call that would wait for ever fails."""

    def __init__(self, deduplicator: Deduplicator | None = None) -> None:
        self.reuse = CallReuse()
        self.deduplicator = deduplicator

    async def read(
        self,
        execute: Callable[[], Awaitable[ToolResult]],
        *,
        call: str = "call_1",
        path: str = "a",
        scope: str = "run/ann",
        resource: Hashable | None = None,
        share: bool = True,
    ) -> tuple[ToolResult, bool]:
        return await self._within_seconds(
            call_id=call,
            deduplicator=self.deduplicator,
            scope=scope,
            name="read",
            arguments={"path": path},
            resource=resource,
            reads=True,
            may_reuse=True,
            share=share,
            execute=execute,
        )

    async def write(
        self,
        execute: Callable[[], Awaitable[ToolResult]],
        *,
        call: str = "call_w",
        value: Any = 1,
        scope: str = "run/ann",
        resource: Hashable | None = None,
        idempotent: bool = False,
        deduplicator: Deduplicator | None = None,
    ) -> tuple[ToolResult, bool]:
        return await self._within_seconds(
            call_id=call,
            deduplicator=deduplicator,
            scope=scope,
            name="write",
            arguments={"value": value},
            resource=resource,
            reads=False,
            may_reuse=idempotent,
            share=True,
            execute=execute,
        )

    async def _within_seconds(self, **asked: Any) -> tuple[ToolResult, bool]:
        async with asyncio.timeout(30):
            return await self.reuse.run(**asked)


class CountedExecution:
    """An execution that counts its runs and, if given a gate, waits there."""

    def __init__(self, content: Any = "ok", *, gate: asyncio.Event | None = None) -> None:
        self.content = content
        self.gate = gate
        self.runs = 0
        self.started = asyncio.Event()

    def by(self, call: str) -> Callable[[], Awaitable[ToolResult]]:
        async def execute() -> ToolResult:
            self.runs += 1
            self.started.set()
            if self.gate is not None:
                await self.gate.wait()
            if isinstance(self.content, Exception):
                raise self.content
            return ToolResult(call, "read", self.content, duration_us=7)

        return execute
