"""Calls as a worker holds them: what was sent and not yet used, how they ended, and for how long that is known."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field

from msgspec.structs import replace

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.errors import BusError, Outcome
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import CallStream
from handrail.node.nats.link import NatsLink
from handrail.node.nats.message_parts import MOST
from handrail.node.nats.messages import (
    NatsAccepted,
    NatsChunk,
    NatsFailure,
    NatsGo,
    NatsHeartbeat,
    NatsRequest,
    NatsResult,
    encode_nats_message,
)

CallKey = tuple[str, str]
"""The owner of a call, and its id."""


@dataclass(slots=True, eq=False, repr=False)
class ServedCall:
    """One call, and everybody who asked for it: usually one."""

    link: NatsLink
    request: InitVar[NatsRequest]
    reply: InitVar[str]
    worker: str
    started: float
    replies: list[str] = field(init=False)
    refs: list[str] = field(init=False)
    descriptor: CapabilityDescriptor | None = None
    key: CallKey | None = None
    what: bytes = b""
    """What was asked: the request itself where it is short, else a hash of the call."""
    task: asyncio.Task[None] | None = None
    go: asyncio.Future[NatsGo] | None = None
    """The call waits for its caller's confirmation."""
    stream: CallStream | None = None
    told: bool = False
    """Whether the caller knows that it is here."""
    waiting: bool = False
    promised: bool = False
    """Whether it has a place, though the bus does not know yet."""
    begun: bool = False
    cancelled: bool = False
    settled_at: float | None = None
    deadline: float | None = None
    seq: int = 0
    size: int = 0
    """Bytes that are kept to be sent again."""
    gone_since: float | None = None
    gone: set[str] = field(default_factory=set)
    """The refs of those that no longer listen, as the server reported since the last heartbeat."""
    _window: int = field(init=False)
    _used: int = 0
    _bounded: bool = True
    _kept: deque[tuple[int, bytes]] = field(default_factory=deque)
    _credit: asyncio.Event | None = None

    def __post_init__(self, request: NatsRequest, reply: str) -> None:
        self.replies, self.refs, self._window = [reply], [request.ref], request.window

    @property
    def ref(self) -> str:
        """The reference of the request that first asked for this call."""
        return self.refs[0]

    @property
    def retriable(self) -> bool:
        return self.descriptor is None or self.descriptor.retriable

    @property
    def in_doubt(self) -> bool:
        """Whether it may have taken effect, if nothing else is known of it."""
        return self.begun and self.descriptor is not None and self.descriptor.side_effects

    def sign(self, kind: type[NatsAccepted] = NatsHeartbeat) -> NatsAccepted:
        """The heartbeat (or acceptance) of this call; fields not known yet have their most cautious value."""
        known = self.descriptor
        return kind(
            worker=self.worker,
            lease_ms=round(self.link.pace.lease * 1000),
            retriable=known is not None and known.retriable,
            side_effects=known is None or known.side_effects,
            waits=self.waiting,
            seq=self.seq,
        )

    async def chunk(self, event: str, data: dict[str, object]) -> None:
        """Send a frame; waits while as many are under way as the caller takes."""
        while self._bounded and self.seq - self._used >= self._window:
            self._credit = self._credit or asyncio.Event()
            self._credit.clear()
            await self._credit.wait()
        await self._send(NatsChunk(seq=self.seq + 1, event=event, data=data, worker=self.worker))

    async def settle(self, end: NatsResult | NatsFailure) -> None:
        try:
            await self._send(replace(end, seq=self.seq + 1, worker=self.worker))
        except BusError as error:  # too large to be sent at all
            outcome: Outcome = "in_doubt" if self.in_doubt else "failed"
            told = BusError("internal_error", f"its answer is {error.message}", outcome=outcome)
            await self._send(NatsFailure(seq=self.seq + 1, error=told.to_dict(), worker=self.worker))

    async def _send(self, message: NatsChunk | NatsResult | NatsFailure) -> None:
        payload = encode_nats_message(message)
        if len(payload) > MOST:
            raise BusError("bad_request", f"a message of {len(payload)} bytes, more than {MOST}; send it as a blob")
        self.seq = message.seq
        self._kept.append((self.seq, payload))
        self.size += len(payload)
        for reply in self.replies:
            await self.link.send_bytes(reply, payload)

    async def beat(self, gone: str) -> None:
        """A sign of life. `gone` is where the server says that nobody hears it."""
        payload = encode_nats_message(self.sign())
        for reply, ref in zip(self.replies, self.refs, strict=True):
            await self.link.send_bytes(reply, payload, f"{gone}.{ref}")

    def use(self, upto: int) -> None:
        self._used = max(self._used, min(upto, self.seq))
        while self._kept and self._kept[0][0] <= self._used:
            self.size -= len(self._kept.popleft()[1])
        self._wake()

    def _wake(self) -> None:
        if self._credit is not None:
            self._credit.set()

    def unbound(self) -> None:
        """Wait for nobody: it is about to end."""
        self._bounded = False
        self._wake()

    async def again(self, after: int, reply: str) -> None:
        """What came after that chunk, or a sign of life."""
        kept = [(seq, payload) for seq, payload in self._kept if seq > after]
        if not kept and self.settled_at is not None:
            lost = BusError("partition", "it has ended, and its answer is no longer kept", outcome="in_doubt")
            kept = [
                (self.seq, encode_nats_message(NatsFailure(seq=self.seq, error=lost.to_dict(), worker=self.worker)))
            ]
        if not kept:
            await self.link.send(reply, self.sign())
        for _, payload in kept:
            await self.link.send_bytes(reply, payload)

    async def cancel(self) -> None:
        """End it, once; what it ends with is sent as ever."""
        if self.settled_at is not None or self.cancelled:
            return
        self.cancelled = True
        self.unbound()
        if self.stream is not None:
            await self.stream.cancel()
        elif self.task is not None:
            self.task.cancel()

    def abandoned_for(self, now: float) -> float:
        """Seconds since which the server says at every heartbeat that nobody hears it: not one of who asked."""
        self.gone_since = (self.gone_since or now) if self.gone.issuperset(self.refs) else None
        self.gone.clear()
        return 0.0 if self.gone_since is None else now - self.gone_since

    def join(self, request: NatsRequest, reply: str) -> None:
        """Somebody else, or the same one again, asks for this call."""
        self.refs.append(request.ref)
        self.replies.append(reply)

    def ended(self, now: float) -> None:
        """Notes the end of a call. Only what may be asked for later is kept."""
        self.settled_at = now
        self.task = self.stream = self.go = self._credit = None

    def forget_answer(self) -> None:
        self._kept.clear()
        self.size = 0


class ServedCallTable:
    """The calls of a worker by reference and by id. What ended is known for a while; a side effect for longer."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        keep: float = 600.0,
        recent: int = 4_000,
        effects: int = 100_000,
        most_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        self._clock = clock
        self._keep = keep
        self._recent = recent
        self._effects = effects
        self._most_bytes = most_bytes
        self._by_ref: dict[str, ServedCall] = {}
        self._by_key: dict[CallKey, ServedCall] = {}
        self.running: dict[str, ServedCall] = {}
        self._reads = BoundedMemory[str, ServedCall](recent, on_forget=lambda ref, call: self.drop(call))
        self._done: dict[str, ServedCall] = {}
        """Side effects, in the order of their ends. None goes early: one that was forgotten could run again."""
        self._with_answer: deque[tuple[ServedCall, int]] = deque()
        self._bytes = 0

    def by_ref(self, ref: str) -> ServedCall | None:
        return self._by_ref.get(ref)

    def by_key(self, key: CallKey) -> ServedCall | None:
        return self._by_key.get(key)

    def add(self, call: ServedCall) -> None:
        self._by_ref[call.ref] = self.running[call.ref] = call

    def name(self, call: ServedCall, key: CallKey) -> None:
        """Known from now on by whose it is and its id."""
        call.key = key
        self._by_key[key] = call

    def join(self, call: ServedCall, request: NatsRequest) -> None:
        self._by_ref[request.ref] = call

    def drop(self, call: ServedCall) -> None:
        """Removes a call as if it had never arrived."""
        self.running.pop(call.ref, None)
        self._reads.pop(call.ref, None)
        self._done.pop(call.ref, None)
        for ref in call.refs:
            self._by_ref.pop(ref, None)
        self.unname(call)

    def unname(self, call: ServedCall) -> None:
        """Drops the id of a call: whoever asks by it asks for a new call."""
        if call.key is not None and self._by_key.get(call.key) is call:
            del self._by_key[call.key]

    def settle(self, call: ServedCall) -> None:
        call.ended(self._clock())
        self.running.pop(call.ref, None)
        if call.retriable:
            self._reads[call.ref] = call
        else:
            self._done[call.ref] = call
        self._with_answer.append((call, call.size))
        self._bytes += call.size
        self._make_room()

    @property
    def full(self) -> bool:
        """Whether so many side effects ended lately that no more could be remembered."""
        self._make_room()
        return len(self._done) >= self._effects

    def _make_room(self) -> None:
        since = self._clock() - self._keep
        while self._done and (next(iter(self._done.values())).settled_at or 0.0) < since:
            self.drop(next(iter(self._done.values())))
        while self._with_answer and (self._bytes > self._most_bytes or len(self._with_answer) > 2 * self._recent):
            call, size = self._with_answer.popleft()
            call.forget_answer()
            self._bytes -= size
