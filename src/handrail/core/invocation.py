"""A call as its handler sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Generic

from handrail.core.calls import ResultLabels, ToolCall, ToolResult
from handrail.core.confirmation import Location
from handrail.core.context import Context
from handrail.core.dependencies import Deps_co
from handrail.core.events import Emit

Report = Callable[[float | None, float | None, str], None]
Hold = Callable[[int], None]
Nested = Callable[[str, dict[str, Any], tuple[str, ...] | None, str], Awaitable[ToolResult]]
BeginRun = Callable[[Any, str], Awaitable[tuple[Any, Context, Emit]]]

_NOWHERE: Mapping[str, Location | None] = MappingProxyType({})


class Invocation(Generic[Deps_co]):
    """The call, its checked arguments, and everything its caller passed along. A tool gets nothing else.

    `Invocation[Shop]` is one whose `deps` are a `Shop`.
    """

    __slots__ = (
        "_begin_run",
        "_hold",
        "_label",
        "_nested",
        "_report",
        "arguments",
        "call",
        "context",
        "idempotency_key",
        "locations",
    )

    def __init__(
        self,
        call: ToolCall,
        arguments: dict[str, Any],
        context: Context,
        idempotency_key: str = "",
        locations: Mapping[str, Location | None] = _NOWHERE,
        *,
        report: Report | None = None,
        nested: Nested | None = None,
        begin_run: BeginRun | None = None,
        label: Callable[[ResultLabels], None] | None = None,
    ) -> None:
        self.call: ToolCall = call
        self.arguments: dict[str, Any] = arguments
        self.context: Context = context
        self.idempotency_key: str = idempotency_key
        """The same for every attempt at this call and for no other: pass it on to services that take one."""
        self.locations: Mapping[str, Location | None] = locations
        """Where paths among the arguments led when the call was decided on. A handler that finds them elsewhere when
        it opens them refuses the call. Empty where nothing was decided."""
        self._report = report
        self._nested = nested
        self._begin_run = begin_run
        self._label = label
        self._hold: Hold | None = None

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
    def deps(self) -> Deps_co:
        """What the program gives its tools, as a database or an HTTP client: `Session(…, deps=…)`. No model sees it."""
        found: Deps_co = self.context.deps
        return found

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

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While a person is asked, the time of the tool does not run; the caller's deadline stays. For async tools."""
        hold = self._hold or _nothing_to_hold
        hold(1)
        try:
            yield
        finally:
            hold(-1)

    def held_by(self, hold: Hold) -> None:
        """The clock of this call, if somebody measures its time."""
        self._hold = hold

    def label_result(self, labels: ResultLabels) -> None:
        """For tools of the runtime whose answers come from elsewhere: sets who wrote the fields of this result."""
        if self._label is not None:
            self._label(labels)

    async def invoke(
        self, name: str, arguments: dict[str, Any], scopes: tuple[str, ...] | None = None, *, key: str = ""
    ) -> ToolResult:
        """Call another tool on behalf of the same caller, with the same rights or, by `scopes`, fewer.

        A `key` names this call among those that this invocation makes. Asked again under it, also when the
        process died in between, it is the same call: it has its one answer and does not run twice.
        """
        if self._nested is None:
            raise RuntimeError("other tools cannot be called from here: this invocation was made without an executor")
        return await self._nested(name, arguments, scopes, key)

    async def begin_run(self, tools: Any, agent: str) -> tuple[Any, Context, Emit]:
        """For a tool of the runtime that runs an agent: the executor of a run below this call, and the run's context.

        The run is named after the call, so a call that is made again takes its run up. It has these tools; its
        caller's record, approver and policy; and its caller's rights at most.
        """
        if self._begin_run is None:
            raise RuntimeError("no run can be begun from here: only a tool that begins runs may do so")
        return await self._begin_run(tools, agent)


def _nothing_to_hold(by: int) -> None:
    """Does nothing: where no timeout is measured, or where it cannot be paused."""
