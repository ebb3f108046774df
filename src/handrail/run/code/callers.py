"""Who settles the calls of code: the executor while the code runs, and only the record when it runs again."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import Outcome, ToolError
from handrail.core.events import CallIntended, CallSettled
from handrail.core.ids import nested_id
from handrail.core.invocation import Invocation
from handrail.execute.executor import Executor
from handrail.sandbox.port import JSON, HostError, ReplLimits

OTHER = (
    "this code was run before, up to here or further, and then asked for something else at this point; what it did "
    "then is not done again. Look at what is there, and write the rest as new code"
)

_EARLY = 0.5
"""Seconds, at most."""


class CallWaitsForPerson(ToolError):
    """A call of a cell waits for a person, and the cell with it: it is run again when the run is taken up."""

    outcome: ClassVar[Outcome] = "needs_confirmation"

    def __init__(self, message: str) -> None:
        super().__init__(self.outcome, message)


class CodeCaller(Protocol):
    @property
    def until(self) -> float | None:
        """The time until which models may be waited for, on the clock of the loop."""

    async def invoke(
        self, name: str, arguments: dict[str, Any], scopes: tuple[str, ...] | None = None, *, key: str = ""
    ) -> ToolResult: ...


class CallVolume:
    """How much the calls of a run have carried, both ways. All of it is kept while the run goes on, so that each call
    has its one answer: so there must be an end to it, or code could fill this process."""

    def __init__(self, most: int = ReplLimits().calls_bytes) -> None:
        self._most = most
        self._carried = 0
        self._counted: set[tuple[str, bool]] = set()
        """Calls, and whether it is their answers: one that is made again carries nothing more."""

    def check(self, call_id: str) -> None:
        """Checks that there is room for this call.

        Raises:
            HostError: There is no room for another call.
        """
        if self._carried > self._most and (call_id, False) not in self._counted:
            much = f"the calls of this run carry more than {self._most:,} bytes, and all of that is kept"
            raise HostError(f"{much}; nothing more can be called. Answer with what you have")

    def add(self, call_id: str, value: JSON, *, is_answer: bool) -> None:
        if (call_id, is_answer) not in self._counted:
            self._counted.add((call_id, is_answer))
            self._carried += _weight(value)

    def recorded(self, event: CallIntended | CallSettled) -> None:
        """A call that an earlier process made, or had answered."""
        match event:
            case CallIntended():
                self.add(event.call_id, event.arguments, is_answer=False)
            case CallSettled(result=ToolResult() as result):
                self.add(event.call_id, result.content, is_answer=True)


class LiveCaller:
    """Settles the calls of a running cell through the executor, under stable keys: a rerun repeats no effect."""

    def __init__(self, invocation: Invocation, *, pauses: bool = False, carried: CallVolume | None = None) -> None:
        self._invocation = invocation
        self._pauses = pauses
        self._carried = carried or CallVolume()
        self._has_diverged = False
        """Whether the code asked for something else than it did the first time. Then nothing is called any more: it
        could be what was done under another key."""
        self.until = _until(invocation.context.deadline)

    async def invoke(
        self, name: str, arguments: dict[str, Any], scopes: tuple[str, ...] | None = None, *, key: str = ""
    ) -> ToolResult:
        if self._has_diverged:
            raise HostError(OTHER)
        id = nested_id(self._invocation.id, key)
        self._carried.check(id)
        self._carried.add(id, arguments, is_answer=False)
        result = await self._invocation.invoke(name, arguments, scopes, key=key)
        self._carried.add(id, result.content, is_answer=True)
        if _is_another(result):
            self._has_diverged = True
            raise HostError(OTHER)
        if self._pauses and result.outcome == "needs_confirmation":
            raise CallWaitsForPerson(result.text)
        return result


class ReplayDiverged(Exception):
    """A cell that ran again asked for something that is not on record. It ends the cell."""


@dataclass(eq=False)
class ReplayCaller:
    """Answers the calls of a cell that runs again, each with the answer that it had. Nothing new is called."""

    executor: Executor
    """Has the record."""
    context: Context
    """The context of the run."""
    call_id: str
    """The id of the call whose code runs again."""
    known: set[str]
    """The ids of the calls that were begun. One that waits for a person would run once it is approved."""
    queries: Container[str] = ()
    """Tools that ask models, and may be given handlers in the REPL."""
    until: float | None = field(default=None, init=False)
    diverged: bool = field(default=False, init=False)
    skipped_handlers: bool = field(default=False, init=False)
    """Whether a query had handlers in the REPL. It has its answer, so they are not called again."""

    async def invoke(
        self, name: str, arguments: dict[str, Any], scopes: tuple[str, ...] | None = None, *, key: str = ""
    ) -> ToolResult:
        call = ToolCall(nested_id(self.call_id, key), name, arguments)
        if not key or call.id not in self.known:
            raise self._other()
        result = await self.executor.invoke(call, self.context)
        if _is_another(result):
            raise self._other()
        self.skipped_handlers |= name in self.queries and arguments.get("tools") is not None
        return result

    def _other(self) -> ReplayDiverged:
        self.diverged = True
        return ReplayDiverged(OTHER)


def wind_up_seconds(seconds: float) -> float:
    """The seconds before its deadline at which a cell is cut off, so that it can clean up."""
    return min(_EARLY, seconds / 10)


def _until(deadline: float | None) -> float | None:
    return None if deadline is None else deadline - wind_up_seconds(deadline - asyncio.get_running_loop().time())


def _is_another(result: ToolResult) -> bool:
    return result.error is not None and result.error.code == "duplicate_id"


def _weight(value: JSON) -> int:
    """Characters of its texts, and a little for everything else."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(key) + _weight(item) for key, item in value.items())
    return sum(map(_weight, value)) if isinstance(value, list) else 8
