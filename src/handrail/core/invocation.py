"""A call as its handler sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context

Report = Callable[[float | None, float | None, str], None]
Nested = Callable[[str, dict[str, Any], tuple[str, ...] | None], Awaitable[ToolResult]]


class Invocation:
    """The call, its checked arguments, and everything its caller passed along. Nothing reaches a tool otherwise."""

    __slots__ = ("_nested", "_report", "arguments", "call", "context", "idempotency_key")

    def __init__(
        self,
        call: ToolCall,
        arguments: dict[str, Any],
        context: Context,
        idempotency_key: str = "",
        *,
        report: Report | None = None,
        nested: Nested | None = None,
    ) -> None:
        self.call = call
        self.arguments = arguments
        self.context = context
        self.idempotency_key = idempotency_key
        """The same for every attempt at this call and for no other: pass it on to services that take one."""
        self._report = report
        self._nested = nested

    @property
    def id(self) -> str:
        return self.call.id

    @property
    def tool_name(self) -> str:
        return self.call.name

    @property
    def input(self) -> dict[str, Any]:
        return self.arguments

    @property
    def auxdata(self) -> Mapping[str, Any]:
        return self.context.auxdata

    @property
    def namespace(self) -> Mapping[str, Any]:
        return self.context.namespace

    def progress(self, current: float | None = None, total: float | None = None, stage: str = "") -> None:
        """Say how far the work is; from the loop, a thread or a worker process alike."""
        if self._report is not None:
            self._report(current, total, stage)

    async def invoke(self, name: str, arguments: dict[str, Any], scopes: tuple[str, ...] | None = None) -> ToolResult:
        """Call another tool on behalf of the same caller, with the same rights or, by `scopes`, fewer."""
        if self._nested is None:
            raise RuntimeError("other tools cannot be called from here: this invocation was made without an executor")
        return await self._nested(name, arguments, scopes)
