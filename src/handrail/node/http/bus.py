"""The bus of another node: what it offers is called here as if it were in this process.

Nothing is ever run twice because an answer is missing. A connection that breaks after a call was sent is
made again, with the same id: the node answers from memory, or says that it knows nothing of it.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self, TypeVar, Unpack

import msgspec

from handrail.core.closing import ClosedOnExit
from handrail.core.errors import BusError, Outcome
from handrail.core.ids import NewId, new_id
from handrail.core.ports import Clock, SystemClock
from handrail.core.redact import Secret
from handrail.core.timeouts import time_limit_at
from handrail.http import HttpAddress, HttpClient
from handrail.node.bus.interfaces import CallOptions, CapabilityOffer, StreamOptions
from handrail.node.bus.outgoing_rights import CallSigner
from handrail.node.bus.request import CallTerms
from handrail.node.bus.versions import VersionReq, satisfies, version_of
from handrail.node.http.http_call import HttpCall, http_call_for
from handrail.node.http.http_stream import FrameLink, HttpStream
from handrail.node.http.link_loss import (
    HttpBackoff,
    LinkLost,
    ask_node,
    error_of_answer,
    in_doubt_error,
    is_momentary_refusal,
    read_answer,
)
from handrail.node.http.socket_link import ALIVE, SocketLink, SocketSettings
from handrail.node.http.sse_link import SseLink
from handrail.node.tokens.identity import Identity

T = TypeVar("T")

Transport = Literal["auto", "sse", "websocket"]
"""The way frames come. `auto` takes a socket if the caller answers calls, and server-sent events otherwise."""
CALL = "/bus/v1/call"
_LARGEST = 64 * 1024 * 1024
"""Bytes of an answer."""
_GRACE = 2.0
"""Seconds past its deadline in which a node may still say itself that there was no time."""


class HttpPace(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait for a node, in seconds."""

    connect: float = 5.0
    silence: float | None = 300.0
    """The time that a node may say nothing at all; None is unlimited."""
    patience: float = 15.0
    """The time to look for a node once it is lost."""
    alive: float = ALIVE
    """After so much silence it is told, on a socket, that we still listen."""


class HttpBus(ClosedOnExit):
    """Speaks to the node at an address. Close it, or use it with `async with`, which asks the node who it is."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        identity: Identity | None = None,
        community: str = "",
        transport: Transport = "auto",
        pace: HttpPace = HttpPace(),
        tls: ssl.SSLContext | bool = True,
        clock: Clock = SystemClock(),
        chance: Callable[[], float] = random.random,
        new_id: NewId = new_id,
    ) -> None:
        """`token` and `identity` speak for this program; whoever it calls for brings their own.

        `community` is the node's, which signatures are made for; by default it is asked.
        """
        self._url = url.rstrip("/")
        self._to_call = HttpAddress.of(self._url + CALL)
        self._token = Secret(token) if token else None
        self._identity = identity
        self._community = community
        self._transport = transport
        self._tls = tls
        self._chance = chance
        self._new_id = new_id
        self._client = HttpClient(tls=tls, connect=pace.connect, silence=pace.silence)
        self._known: list[CapabilityOffer] = []
        self._node_id = ""
        self.clock = clock
        self.pace = pace

    @property
    def node_id(self) -> str:
        """The node's id once it was asked, and its address before."""
        return self._node_id or self._to_call.authority

    async def __aenter__(self) -> Self:
        try:
            await self.introduce()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def aclose(self) -> None:
        await self._client.aclose()

    async def introduce(self) -> None:
        """Ask the node who it is.

        Raises:
            BusError: It cannot be reached, or does not say.
        """
        said = await self._get("/manifest")
        node_id, community = said.get("node_id"), said.get("community")
        if not isinstance(node_id, str) or not node_id:
            raise BusError("internal_error", "the node does not say its id")
        self._node_id = node_id
        if not self._community and isinstance(community, str):
            self._community = community

    async def discover(self, name: str | None = None) -> Sequence[CapabilityOffer]:
        said = await self._get("/capabilities")
        listed = said.get("capabilities")
        if not isinstance(listed, list):
            raise BusError("internal_error", "the node does not say what it offers")
        node_id = said.get("node_id")
        if isinstance(node_id, str) and node_id:
            self._node_id = node_id
        node = self.node_id
        self._known = [offer for each in listed if (offer := CapabilityOffer.from_dict(node, each)) is not None]
        return tuple(offer for offer in self._known if name is None or offer.descriptor.name == name)

    # ── calls ────────────────────────────────────────────────────────────────────────

    async def call(
        self, capability: str, version_req: VersionReq, body: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> dict[str, Any]:
        ask = await self._ask(capability, version_req, body, options)
        return await self.in_time(ask, self._until_answered(ask))

    async def _until_answered(self, ask: HttpCall) -> dict[str, Any]:
        backoff, attempt, lost_at = self.backoff(), 1, None
        while True:
            try:
                return await self._once(ask, attempt)
            except LinkLost as lost:
                begun = lost.sent or attempt > 1
                now = self.clock.monotonic()
                lost_at = now if lost_at is None else lost_at
                if not begun or now - lost_at > self.pace.patience:
                    raise self.lost_error(ask, str(lost), begun=begun) from lost
            await self.clock.sleep(backoff.delay())
            attempt += 1

    async def _once(self, ask: HttpCall, attempt: int) -> dict[str, Any]:
        headers = {**ask.headers(attempt), "accept": "application/json"}
        status, body = await self._exchange("POST", self._to_call, headers, ask.payload)
        if status != 200:
            raise self.refusal_error(ask, error_of_answer(status, body), attempt)
        return _object(body)

    def refusal_error(self, ask: HttpCall, error: BusError, attempt: int) -> Exception:
        """What a refusal means: of the first attempt, itself; a later one says little about those before."""
        if attempt == 1 or self._retriable(ask):
            return error
        return LinkLost(error.message) if is_momentary_refusal(error) else in_doubt_error(error)

    def stream(
        self, capability: str, version_req: VersionReq, body: Mapping[str, Any], **options: Unpack[StreamOptions]
    ) -> HttpStream:
        make = partial(self._ask, capability, version_req, body, options)
        return HttpStream(self, make, socket=self._transport == "websocket")

    async def _ask(
        self, capability: str, version_req: VersionReq, body: Mapping[str, Any], options: CallOptions
    ) -> HttpCall:
        if self._identity is not None and not (self._community and self._node_id):
            await self.introduce()
        signing = None
        if self._identity is not None:
            signing = CallSigner(self._identity, self._community, self.clock, self._node_id)
        terms = CallTerms.of(options).from_now()
        return http_call_for(
            *(capability, version_req, body, terms), token=self._token, signing=signing, new_id=self._new_id
        )

    # ── what a stream needs of its bus ───────────────────────────────────────────────

    async def by_events(self, ask: HttpCall, attempt: int, after: int) -> FrameLink:
        return await SseLink.open(self._client, self._to_call, ask, attempt, after)

    async def by_socket(self, ask: HttpCall, attempt: int, after: int) -> FrameLink:
        at = SocketSettings(self._to_call, self._secured(), self.pace.connect, self.pace.alive)
        return await SocketLink.open(at, ask, attempt, after)

    def backoff(self) -> HttpBackoff:
        return HttpBackoff(self._chance)

    def lost_error(self, ask: HttpCall, why: str, *, begun: bool) -> BusError:
        """Before anything was sent, nothing was done; after it, only what may be done again is no matter of doubt."""
        if not begun:
            return BusError("partition", f"the node cannot be reached: {why}")
        if self._retriable(ask):
            return BusError("partition", f"the node was lost: {why}")
        why = f"the node was lost, and whether it did this is not known: {why}"
        return BusError("partition", why, outcome="in_doubt")

    def _retriable(self, ask: HttpCall) -> bool:
        """Whether the node described this capability as safe to retry; False if it described nothing."""
        wanted = version_of(ask.version)
        named = [each.descriptor for each in self._known if each.descriptor.name == ask.capability]
        found = [each for each in named if satisfies(each.version, wanted)]
        return bool(found) and all(each.retriable for each in found)

    def cancelled_error(self, ask: HttpCall, *, begun: bool) -> BusError:
        """The error of a call that was cancelled by hanging up, so that nobody says how it ended."""
        outcome: Outcome = "in_doubt" if begun and not self._retriable(ask) else "cancelled"
        return BusError("cancelled", "the caller cancelled it", outcome=outcome)

    async def in_time(self, ask: HttpCall, work: Awaitable[T]) -> T:
        """What the work gives, unless the time of the call is over before.

        Raises:
            BusError: It is, and the node is silent (`timeout`).
        """
        try:
            async with time_limit_at(None if ask.terms.deadline is None else ask.terms.deadline + _GRACE) as limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
        outcome: Outcome = "timeout" if self._retriable(ask) else "in_doubt"
        raise BusError("timeout", "the node said nothing in time", outcome=outcome)

    def _secured(self) -> ssl.SSLContext | None:
        """Made once: to read the system's certificates takes long enough to hold up an event loop."""
        if self._to_call.scheme == "https" and not isinstance(self._tls, ssl.SSLContext):
            context = ssl.create_default_context()
            if not self._tls:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self._tls = context
        return self._tls if isinstance(self._tls, ssl.SSLContext) else None

    # ── requests ─────────────────────────────────────────────────────────────────────

    async def _get(self, path: str) -> dict[str, Any]:
        headers = {"accept": "application/json"}
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token}"
        try:
            status, body = await self._exchange("GET", HttpAddress.of(self._url + path), headers, b"")
        except LinkLost as lost:
            raise BusError("partition", f"the node cannot be reached: {lost}") from lost
        if status != 200:
            raise error_of_answer(status, body)
        return _object(body)

    async def _exchange(
        self, method: str, address: HttpAddress, headers: Mapping[str, str], payload: bytes
    ) -> tuple[int, bytes]:
        answer = await ask_node(self._client, method, address, headers, payload)
        body = await read_answer(answer, _LARGEST)
        if len(body) > _LARGEST:
            raise BusError("internal_error", f"the answer has more than {_LARGEST:,} bytes", outcome="in_doubt")
        return answer.status, body


def _object(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BusError("internal_error", "the node gave an answer that cannot be read", outcome="in_doubt") from error
