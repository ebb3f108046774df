"""One call at the worker, from the first message to its one end."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol

import msgspec

from handrail.core.canonical import canonical_json
from handrail.core.errors import BusError, Outcome
from handrail.core.ids import traceparent
from handrail.core.redact import Secret
from handrail.core.timeouts import time_limit
from handrail.node.bus.answered_calls import KnownLater, NothingBegun
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import Bus, CallStream
from handrail.node.bus.request import Caller, CallTerms
from handrail.node.bus.stream_frame import DONE, ERROR
from handrail.node.bus.versions import Version, version_of
from handrail.node.nats.link import NatsLink
from handrail.node.nats.messages import (
    NatsAccepted,
    NatsBusy,
    NatsFailure,
    NatsRequest,
    NatsResult,
    decode_caller_message,
)
from handrail.node.nats.micro import CapabilityCounts
from handrail.node.nats.served_calls import ServedCall, ServedCallTable

logger = logging.getLogger(__name__)

_AT_ONCE = 0.01
"""Seconds: an answer that takes no longer is its own sign of life."""
_LONGEST_ID = 200
SHORT = 2_048
"""Bytes of a request that is kept as it came, so that nothing need be made of it unless its id comes again."""


class AskAnotherWorker(Exception):
    """The call was not begun here, so another worker may be asked."""

    def __init__(self, error: BusError) -> None:
        super().__init__(error.code)
        self.error = error


class JoinedKnownCall(Exception):
    """The call is known: whoever asks gets what the first one gets."""


class CallAuthenticator(Protocol):
    """`Authenticator`, or whatever else knows callers by how they sign."""

    def authenticate(self, fields: Mapping[str, str], body: bytes) -> Caller:
        """Returns the sender; the fields are those of an envelope, and may be empty.

        Raises:
            BusError: It is signed, and wrongly (`invalid_signature`).
        """
        ...


@dataclass(eq=False, repr=False)
class NatsCallServer:
    """Everything that calls of one worker have in common."""

    bus: Bus
    link: NatsLink
    table: ServedCallTable
    _: KW_ONLY
    worker: str
    authenticator: CallAuthenticator
    find: Callable[[str, Version], CapabilityDescriptor | None]
    refresh: Callable[[], Awaitable[None]]
    counts: Callable[[str], CapabilityCounts]

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._untold: list[ServedCall] = []
        self._bell: asyncio.TimerHandle | None = None

    async def serve(self, call: ServedCall, request: NatsRequest) -> None:
        """Run it; its one end is sent, and kept."""
        started = time.perf_counter_ns()
        try:
            end = await self._ended(call, request)
        except AskAnotherWorker as elsewhere:
            self.table.drop(call)
            for reply in call.replies:
                await self.link.send(reply, NatsBusy(worker=self.worker, error=elsewhere.error.to_dict()))
            return
        except JoinedKnownCall:
            return
        if not call.begun:
            self.table.unname(call)
        if call.descriptor is not None:
            counts = self.counts(call.descriptor.full_name)
            counts.requests += 1
            counts.errors += isinstance(end, NatsFailure)
            counts.nanoseconds += time.perf_counter_ns() - started
        try:
            await call.settle(end)
        finally:
            self.table.settle(call)

    async def _ended(self, call: ServedCall, request: NatsRequest) -> NatsResult | NatsFailure:
        self._untold.append(call)
        if self._bell is None:
            self._bell = self._loop.call_later(_AT_ONCE, self._ring)
        try:
            return await self._run(call, request)
        except (NothingBegun, KnownLater) as error:
            self.table.unname(call)  # whoever asks by its id again is told what the record says by then
            return NatsFailure(seq=0, error=error.to_dict())
        except BusError as error:
            return NatsFailure(seq=0, error=error.to_dict())
        except asyncio.CancelledError:
            outcome: Outcome = "in_doubt" if call.in_doubt else "cancelled"
            given_up = BusError("cancelled", "the call was cancelled", outcome=outcome)
            return NatsFailure(seq=0, error=given_up.to_dict())
        except (AskAnotherWorker, JoinedKnownCall):
            raise
        except Exception:
            logger.exception("a call over NATS failed in a way that nobody foresaw")
            outcome = "in_doubt" if call.in_doubt else "failed"
            return NatsFailure(seq=0, error=BusError("internal_error", "the worker failed", outcome=outcome).to_dict())

    def _ring(self) -> None:
        """Tell those who wait for an answer that their call is here. One bell for all of them: most need none."""
        old = self._loop.time() - _AT_ONCE / 2
        waiting = [call for call in self._untold if not call.told and call.settled_at is None]
        self._untold = [call for call in waiting if call.started > old]
        self._bell = self._loop.call_later(_AT_ONCE, self._ring) if self._untold else None
        for call in waiting:
            if call.started <= old and call.ref in self.table.running:
                self.link.later(self._accept(call))

    async def _accept(self, call: ServedCall) -> None:
        call.told = True
        for reply in call.replies:
            await self.link.send(reply, call.sign(NatsAccepted))

    async def _run(self, call: ServedCall, request: NatsRequest) -> NatsResult:
        _check(request)
        wanted = version_of(request.version)
        if (descriptor := self.find(request.capability, wanted)) is None:
            await self.refresh()
            descriptor = self.find(request.capability, wanted)
        call.descriptor = descriptor
        if descriptor is None:
            raise AskAnotherWorker(BusError("not_found", f"{request.capability}@{request.version} is not served here"))
        if request.timeout_ms is not None:
            call.deadline = self._loop.time() + request.timeout_ms / 1000
        body = request.body
        if body is None:
            body = await self._word(call)
            if body is None:
                raise BusError("bad_request", "the call came without a body")
        signed = canonical_json(body) if request.signature else b""
        caller = self.authenticator.authenticate(signed_fields(request), signed)
        await self._join_or_name(call, request, caller, body)
        if not descriptor.retriable:
            await self._promise(call, descriptor)
            if request.body is not None:
                await self._word(call)
        call.begun = True
        terms = _terms(call, request, caller)
        if request.stream:
            await self._accept(call)
            return await self._streamed(call, self.bus.stream(request.capability, wanted, body, terms=terms))
        try:
            return NatsResult(seq=0, body=await self.bus.call(request.capability, wanted, body, terms=terms))
        except BusError as error:
            raise _or_elsewhere(call, error) from error

    async def _streamed(self, call: ServedCall, stream: CallStream) -> NatsResult:
        async with stream:
            call.stream = stream
            async for frame in stream:
                if frame.event == DONE:
                    return NatsResult(seq=0, body=frame.data)
                if frame.event == ERROR:
                    raise _or_elsewhere(call, BusError.from_dict(frame.data))
                await call.chunk(frame.event, frame.data)
        raise BusError("internal_error", "the stream ended without an end")

    async def _word(self, call: ServedCall) -> dict[str, Any] | None:
        """Wait for the caller's permission to begin; what it brought along."""
        call.waiting, call.go = True, self._loop.create_future()
        await self._accept(call)
        try:
            with contextlib.suppress(TimeoutError):
                async with time_limit(self.link.pace.lease):
                    go = await call.go
                    if go.timeout_ms is not None:
                        call.deadline = self._loop.time() + go.timeout_ms / 1000
                    return go.body
        finally:
            call.waiting = False
        raise BusError(
            "partition", "the caller's permission to start did not arrive; the call did not start", begun=False
        )

    async def _join_or_name(self, call: ServedCall, request: NatsRequest, caller: Caller, body: dict[str, Any]) -> None:
        # Who does not sign has no name: what one of them did is kept for the same connection only.
        owner = caller.id if request.signature else f"{caller.id} {call.replies[0].rpartition('.')[0]}"
        if request.body is None or not call.what:
            call.what = _hashed(request, body)
        first = self.table.by_key((owner, request.call_id))
        if first is None:
            self.table.name(call, (owner, request.call_id))
            return
        if _same(first.what) != _same(call.what):
            raise BusError(
                "bad_request", f"the call id {request.call_id[:40]!r} was used for another call; take a new one"
            )
        self.table.drop(call)
        first.join(request, call.replies[0])
        self.table.join(first, request)
        await first.again(0, call.replies[0])
        raise JoinedKnownCall

    async def _promise(self, call: ServedCall, descriptor: CapabilityDescriptor) -> None:
        """A place for a call that may be begun only once: afterwards it could not go elsewhere."""
        if self.table.full:
            raise AskAnotherWorker(
                BusError("capacity_exceeded", "too many side effects to remember", retry_after_ms=1000)
            )
        offers = await self.bus.discover(descriptor.name)
        taken = [each.in_flight for each in offers if each.local and each.descriptor.version == descriptor.version]
        running = self.table.running.values()
        promised = sum(each.promised and each.descriptor == descriptor for each in running)
        if max(promised, *taken, 0) >= descriptor.max_concurrent:
            raise AskAnotherWorker(BusError("capacity_exceeded", f"{descriptor.full_name} is busy", retry_after_ms=100))
        call.promised = True


def _hashed(request: NatsRequest, body: dict[str, Any]) -> bytes:
    what = msgspec.json.encode((request.capability, request.version, request.stream, body), order="deterministic")
    return hashlib.sha256(what).digest()


def _same(what: bytes) -> bytes:
    """Equal for two requests of one call. It is made only where an id comes twice: it costs as much as a small call."""
    if len(what) == hashlib.sha256().digest_size:
        return what
    request = decode_caller_message(what)
    assert isinstance(request, NatsRequest)  # the door keeps nothing else
    return _hashed(request, request.body or {})


def signed_fields(request: NatsRequest) -> dict[str, str]:
    """The envelope of a call as it is signed. The attempt is part of it, so each has a signature of its own."""
    return {
        "capability": request.capability,
        "version": request.version,
        "request_id": f"{request.call_id}/{request.ref}",
        "from": request.sender,
        "community": request.community,
        "timestamp": request.timestamp,
        "signature": request.signature,
    }


def _check(request: NatsRequest) -> None:
    if request.v != 1:
        raise BusError("bad_request", f"this worker speaks version 1 of the protocol, not {request.v}")
    if not 0 < len(request.call_id) <= _LONGEST_ID or request.depth < 0 or request.window < 1:
        raise BusError("bad_request", "the call has no usable id, depth or window")


def _terms(call: ServedCall, request: NatsRequest, caller: Caller) -> CallTerms:
    return CallTerms(
        caller=caller,
        token=Secret(request.token) if request.token else None,
        deadline=call.deadline,
        depth=request.depth,
        within=request.within,
        trace=traceparent(request.traceparent),
        call_id=request.call_id,
        session_id=request.session_id,
        schema_hash=request.schema_hash,
        interactive=request.interactive,
    )


def _or_elsewhere(call: ServedCall, error: BusError) -> BusError | AskAnotherWorker:
    """A full capability is another worker's chance, if this call may be made again."""
    full = error.code == "capacity_exceeded" and call.seq == 0 and call.retriable
    return AskAnotherWorker(error) if full else error
