"""For whom and on what terms a call is made, and the call as the handler of a capability sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.context import Context, Principal
from handrail.core.errors import BusError
from handrail.core.redact import Secret
from handrail.node.bus.descriptor import Trust
from handrail.node.bus.result_labels import said_labels
from handrail.node.bus.versions import Version, VersionReq

if TYPE_CHECKING:
    from handrail.node.bus.interfaces import Bus, CallOptions


class Caller(Struct, frozen=True, kw_only=True):
    """The caller. A door says who signed; admission derives the rights from that and from the token."""

    principal: Principal
    trust: Trust = "unknown"
    token: Secret | None = None
    """Goes along to whatever is called on its behalf."""

    @property
    def id(self) -> str:
        return self.principal.id


OWN = Caller(principal=Principal("self"), trust="self")
"""The program that the bus runs in. Doors to the outside never say so."""
NOBODY = Caller(principal=Principal("anonymous", ()), trust="unknown")
"""The caller that came through a door and said nothing about itself."""


class CallTerms(Struct, frozen=True, kw_only=True):
    """The terms of a call, besides what is called. A door makes them for a call from outside; every bus reads them."""

    caller: Caller = OWN
    token: Secret | None = None
    """The token that the caller shows with this call."""
    deadline: float | None = None
    """The deadline on the monotonic clock of the event loop."""
    timeout_seconds: float | None = None
    """The time limit from when a bus takes the call; it becomes part of the deadline there."""
    depth: int = 0
    """The number of calls above this one."""
    within: tuple[tuple[str, ...], ...] = ()
    """Scopes of the calls above; each of them must allow this one too."""
    call_id: str | None = None
    """The id that the caller gave: the same for every attempt at one call, which is run once."""
    trace: str | None = None
    """The W3C `traceparent` of whatever this is part of."""
    session_id: str | None = None
    schema_hash: str | None = None
    """What the caller takes the capability to be; another one is refused (`schema_mismatch`)."""
    interactive: bool = False
    """Whether the caller of a stream answers its `tool_call` frames."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> CallTerms:
        """The terms that the options of `Bus.call` state. With `terms` among them, the others change those."""
        given = dict(options)
        terms: CallTerms | None = given.pop("terms", None)
        if "caller" in given:
            given["caller"] = given["caller"] or OWN
        if "token" in given:
            given["token"] = Secret(given["token"]) if given["token"] else None
        return cls(**given) if terms is None else replace(terms, **given)

    def from_now(self) -> CallTerms:
        """The same terms, with a timeout that begins now made part of the deadline."""
        if self.timeout_seconds is None:
            return self
        ends = asyncio.get_running_loop().time() + self.timeout_seconds
        ends = ends if self.deadline is None else min(ends, self.deadline)
        return replace(self, deadline=ends, timeout_seconds=None)


class CallChannel(Protocol):
    """The other end of a call, while it lasts."""

    @property
    def interactive(self) -> bool:
        """Whether the caller can answer in mid-stream."""
        ...

    async def send(self, event: str, data: dict[str, Any]) -> None:
        """Send a frame; waits while the caller is behind."""
        ...

    async def answer(self, tool_call_id: str) -> dict[str, Any]:
        """What the caller says to a call that was sent to it: `{"body": …, "is_error": bool}`."""
        ...


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class RouteRequest:
    """The body, checked; on whose behalf; until when; and the way back."""

    capability: str
    version: Version
    body: dict[str, Any]
    caller: Caller
    context: Context
    """The caller's context, with depth, deadline (on the loop's clock) and the scopes of everything above."""
    call_id: str
    bus: Bus
    """The bus that the call is on. What is called for the caller goes by `call`, which passes on its terms."""
    channel: CallChannel | None = None
    session_id: str | None = None
    trace_id: str = ""
    on_outside: Callable[[], None] | None = None
    """Told when a capability that was called for this one gave words from outside."""

    @property
    def stream(self) -> bool:
        """Whether somebody reads the frames. They may be sent in any case."""
        return self.channel is not None

    @property
    def params(self) -> dict[str, Any]:
        return self.body.get("params") or {}

    @property
    def input(self) -> dict[str, Any]:
        return self.body.get("input") or {}

    @property
    def interactive(self) -> bool:
        return self.channel is not None and self.channel.interactive

    @property
    def remaining(self) -> float | None:
        """Seconds until the caller no longer waits."""
        if self.context.deadline is None:
            return None
        return self.context.deadline - asyncio.get_running_loop().time()

    async def send(self, event: str, data: dict[str, Any]) -> None:
        """Send one frame, of an event that the stream schema names, to whoever listens."""
        if self.channel is not None:
            await self.channel.send(event, data)

    async def answer(self, tool_call_id: str) -> dict[str, Any]:
        """Wait for what the caller says to a tool call that was sent to it. Only where it is `interactive`."""
        if self.channel is None:
            raise RuntimeError("nobody can answer here: the call is not interactive")
        return await self.channel.answer(tool_call_id)

    async def call(
        self, capability: str, version_req: VersionReq, body: Mapping[str, Any], **options: Any
    ) -> dict[str, Any]:
        """Call another capability for the same caller: one deeper, until the same deadline, with no more rights.

        Raises:
            BusError: As `Bus.call`.
        """
        try:
            response = await self.bus.call(capability, version_req, body, **{**self.passed_on(), **options})
        except BusError as error:
            error.is_nested = True
            raise
        labels = said_labels(response.get("meta") or {})
        if labels is not None and labels.untrusted and self.on_outside is not None:
            self.on_outside()
        return response

    def passed_on(self) -> CallOptions:
        """The options of `Bus.call` for a call that is made for this one."""
        terms = CallTerms(
            caller=self.caller,
            token=self.caller.token,
            deadline=self.context.deadline,
            depth=self.context.depth + 1,
            within=(*self.context.within, *(() if self.context.scopes is None else (self.context.scopes,))),
            session_id=self.session_id,
            trace=self.context.trace,
        )
        return {"terms": terms}
