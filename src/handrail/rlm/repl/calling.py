"""Who settles what a cell asks of the host: the executor while a cell runs, and only its record when one runs again."""

from __future__ import annotations

from typing import Any, Protocol

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.ids import nested_id
from handrail.core.invocation import Invocation
from handrail.execute.executor import Executor
from handrail.rlm.repl.tools import QUERIES
from handrail.sandbox.port import HostError

OTHER = (
    "this code was run before, up to here or further, and then asked for something else at this point; what it did "
    "then is not done again. Look at what is there, and write the rest as new code"
)


class Caller(Protocol):
    async def invoke(
        self, name: str, arguments: dict[str, Any], scopes: tuple[str, ...] | None = None, *, key: str = ""
    ) -> ToolResult: ...


class Live:
    """While a cell runs. A cell that was cut off runs again under the same keys, and does nothing twice."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation

    async def invoke(
        self, name: str, arguments: dict[str, Any], scopes: tuple[str, ...] | None = None, *, key: str = ""
    ) -> ToolResult:
        result = await self._invocation.invoke(name, arguments, scopes, key=key)
        if _is_another(result):
            raise HostError(OTHER)
        return result


class Diverged(Exception):
    """A cell that ran again asked for something that is not on record. It ends the cell."""


class Remembered:
    """For a cell that runs again: each call has the answer that it had. Nothing new is called."""

    def __init__(self, executor: Executor, context: Context, call_id: str, known: set[str]) -> None:
        self._executor = executor
        self._context = context
        self._call_id = call_id
        self._known = known
        self.diverged = False
        self.skipped_handlers = False
        """Whether a query had handlers in the REPL. It has its answer, so they are not called again."""

    async def invoke(
        self, name: str, arguments: dict[str, Any], scopes: tuple[str, ...] | None = None, *, key: str = ""
    ) -> ToolResult:
        call = ToolCall(nested_id(self._call_id, key), name, arguments)
        if not key or call.id not in self._known:
            raise self._other()
        result = await self._executor.invoke(call, self._context)
        if _is_another(result):
            raise self._other()
        self.skipped_handlers |= name in QUERIES and arguments.get("tools") is not None
        return result

    def _other(self) -> Diverged:
        self.diverged = True
        return Diverged(OTHER)


def _is_another(result: ToolResult) -> bool:
    return result.error is not None and result.error.code == "duplicate_id"
