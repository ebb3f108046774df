"""The worker's side: a bus opened to a community over NATS.

It finds out who calls, and until when they wait; what they may and what happens is the bus's business. What it adds is
an honest end of every call: signs of life on the way, answers that are kept for a caller that lost its connection,
and for what must not run twice a start only once the caller confirms.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import defaultdict
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Self

import msgspec

from handrail.core.closing import ClosedOnExit
from handrail.core.errors import BusError
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import Bus, CapabilityOffer
from handrail.node.bus.versions import Version, satisfies
from handrail.node.nats.call_server import SHORT, CallAuthenticator, NatsCallServer
from handrail.node.nats.link import NatsLink, SubjectListener, is_no_listener
from handrail.node.nats.message_parts import PartAssembler
from handrail.node.nats.messages import (
    QUEUE,
    NatsBusy,
    NatsCancel,
    NatsCredit,
    NatsDescribe,
    NatsDescribed,
    NatsFailure,
    NatsGo,
    NatsRequest,
    NatsStatus,
    NatsSubjects,
    NatsToolAnswer,
    NatsToolAnswerReceipt,
    NatsUnknownCall,
    decode_caller_message,
)
from handrail.node.nats.micro import CapabilityCounts, MicroResponder
from handrail.node.nats.served_calls import ServedCall, ServedCallTable
from handrail.node.tokens.signatures import Authenticator

if TYPE_CHECKING:
    from nats.aio.msg import Msg

logger = logging.getLogger(__name__)


class NatsDoor(ClosedOnExit):
    """Used with `async with`, which drains it; or started and closed."""

    def __init__(
        self,
        bus: Bus,
        connection: NatsLink,
        *,
        community: str,
        authenticator: CallAuthenticator | None = None,
        most: int = 1_000,
        refresh: float = 1.0,
        record: str = "",
    ) -> None:
        """`most` calls are taken at once; what the bus offers is looked at every `refresh` seconds.

        `record` names the record of the bus if other workers have the same one: each of them can then say what became
        of a call that another one began.
        """
        self.worker: str = secrets.token_hex(11)
        """Of this process, now: a worker that is started again is another one, and knows nothing."""
        self._bus = bus
        self._link = connection
        self._subjects = NatsSubjects(community)
        self._direct = self._subjects.worker(self.worker)
        self._authenticator = authenticator or Authenticator(community=community)
        self._most = most
        self._refresh = refresh
        self._record = record
        self._counts: defaultdict[str, CapabilityCounts] = defaultdict(CapabilityCounts)
        self._offers: dict[tuple[str, Version], CapabilityOffer] = {}
        self._served: dict[str, SubjectListener] = {}
        self._own: list[SubjectListener] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._around: list[asyncio.Task[None]] = []
        self._following = asyncio.Lock()
        self._draining = False

    # ── its life ─────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """Serve what the bus offers, and say so."""
        await self._link.open()
        loop = asyncio.get_running_loop()
        self._table = ServedCallTable(loop.time)
        self._assembler = PartAssembler(loop.time)
        self._serving = NatsCallServer(
            self._bus,
            self._link,
            self._table,
            worker=self.worker,
            authenticator=self._authenticator,
            find=self._find,
            refresh=self.refresh,
            counts=lambda name: self._counts[name],
        )
        self._micro = MicroResponder(
            self._link,
            self._subjects,
            worker=self.worker,
            node_id=self._bus.node_id,
            record=self._record,
            counts=lambda name: self._counts[name],
            refresh=self.refresh,
        )
        self._own.append(await self._link.listen(self._direct, self._arrived))
        self._own.append(await self._link.listen(f"{self._direct}.gone.*", self._gone))
        await self._micro.start()
        await self.refresh(always=True)
        self._around = [loop.create_task(self._follow()), loop.create_task(self._beat())]

    async def refresh(self, *, always: bool = False) -> None:
        """Serve exactly what the bus offers now."""
        async with self._following:
            offers = {
                (each.descriptor.name, each.descriptor.version): each
                for each in await self._bus.discover()
                if each.local
            }
            hashes = {key: each.schema_hash for key, each in self._offers.items()}
            changed = hashes != {key: each.schema_hash for key, each in offers.items()}
            self._offers = offers
            if (changed or always) and not self._draining:
                await self._subscribe({self._subjects.capability(*key) for key in offers})
                await self._micro.announce(list(offers.values()))

    async def _subscribe(self, wanted: set[str]) -> None:
        for subject in wanted - self._served.keys():
            self._served[subject] = await self._link.listen(subject, self._arrived, queue=QUEUE)
        for subject in self._served.keys() - wanted:
            await self._served.pop(subject).leave()
        await self._link.flush()

    async def drain(self, seconds: float = 10.0) -> None:
        """Take nothing new, let what runs end by itself in that time, then cancel the rest."""
        if not self._draining:
            self._draining = True
            await self._micro.announce(list(self._offers.values()), gone=True)
            await self._micro.stop()
            await asyncio.gather(*(each.leave() for each in self._served.values()))
            self._served.clear()
        running = [call.task for call in self._table.running.values() if call.task is not None]
        if running:
            _, late = await asyncio.wait(running, timeout=seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=self._link.pace.lease)

    async def aclose(self, seconds: float = 10.0) -> None:
        await self.drain(seconds)
        left = [*self._around, *self._tasks]
        for task in self._around:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.gather(*(each.leave() for each in self._own))
        self._own.clear()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    @property
    def under_way(self) -> int:
        return len(self._table.running)

    # ── what arrives ─────────────────────────────────────────────────────────────────────

    def _arrived(self, message: Msg) -> None:
        """Reads and hands on only: anything slow is done elsewhere, since every other call would wait."""
        payload = self._assembler.feed(message.data)
        if payload is None:
            return
        try:
            said = decode_caller_message(payload)
        except msgspec.MsgspecError:
            error = BusError("bad_request", "the message cannot be read; its form is described in docs/nats.md")
            self._spawn(self._link.send(message.reply, NatsFailure(seq=1, error=error.to_dict())), message.reply)
            return
        if isinstance(said, NatsRequest):
            self._requested(said, message.reply, payload)
        else:
            self._take(said, message.reply)

    def _take(
        self, said: NatsDescribe | NatsStatus | NatsGo | NatsCredit | NatsCancel | NatsToolAnswer, reply: str
    ) -> None:
        match said:
            case NatsDescribe():
                self._spawn(self._describe(reply), reply)
            case NatsStatus():
                call = self._table.by_ref(said.ref)
                if call is None:
                    self._spawn(self._link.send(reply, NatsUnknownCall(worker=self.worker)), reply)
                else:
                    self._spawn(call.again(said.after, reply), reply)
            case _ if (call := self._table.by_ref(said.ref)) is not None:
                self._steer(call, said, reply)

    def _requested(self, request: NatsRequest, reply: str, written: bytes) -> None:
        if not reply:
            return  # nobody would hear what became of it
        known = self._table.by_ref(request.ref)
        if known is not None:  # the same message twice
            self._spawn(known.again(0, reply), reply)
            return
        if self._draining or len(self._table.running) >= self._most:
            why = BusError("capacity_exceeded", "the worker accepts no more calls now", retry_after_ms=100)
            self._spawn(self._link.send(reply, NatsBusy(worker=self.worker, error=why.to_dict())), reply)
            return
        loop = asyncio.get_running_loop()
        call = ServedCall(self._link, request, reply, self.worker, loop.time())
        if len(written) <= SHORT:
            call.what = written
        self._table.add(call)
        call.task = loop.create_task(self._serving.serve(call, request))

    def _steer(self, call: ServedCall, said: NatsGo | NatsCredit | NatsCancel | NatsToolAnswer, reply: str) -> None:
        call.gone_since = None
        match said:
            case NatsGo():
                if call.go is not None and not call.go.done():
                    call.go.set_result(said)
            case NatsCredit():
                call.use(said.upto)
            case NatsCancel():
                self._spawn(call.cancel(), "-")
            case NatsToolAnswer():
                self._spawn(self._answer(call, said, reply), reply)

    async def _answer(self, call: ServedCall, said: NatsToolAnswer, reply: str) -> bool:
        error: BusError | None = BusError("bad_request", "the call is not waiting for an answer")
        if call.stream is not None:
            try:
                await call.stream.tool_result(said.tool_call_id, said.body, is_error=said.is_error)
                error = None
            except BusError as refused:
                error = refused
        return await self._link.send(reply, NatsToolAnswerReceipt(error=None if error is None else error.to_dict()))

    async def _describe(self, reply: str) -> bool:
        offers = [each for each in await self._bus.discover() if each.local]
        shown = [{**each.descriptor.to_dict(), "in_flight": each.in_flight} for each in offers]
        return await self._link.send(reply, NatsDescribed(node_id=self._bus.node_id, offers=shown))

    def _gone(self, message: Msg) -> None:
        """The server says that a caller's inbox is not there."""
        call = self._table.by_ref(message.subject.rpartition(".")[2])
        if call is not None and is_no_listener(message):
            call.gone.add(message.subject.rpartition(".")[2])

    # ── around ───────────────────────────────────────────────────────────────────────────

    def _find(self, name: str, wanted: Version) -> CapabilityDescriptor | None:
        fits = [each for each in self._offers if each[0] == name and satisfies(each[1], wanted)]
        return self._offers[max(fits)].descriptor if fits else None

    def _spawn(self, work: Coroutine[Any, Any, Any], reply: str) -> None:
        if not reply:
            work.close()
            return
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._refresh)
            try:
                await self.refresh()
            except Exception:
                logger.exception("what the bus offers could not be brought up to date")

    async def _beat(self) -> None:
        """Signs of life for every call, and an end for those that nobody waits for."""
        while True:
            await asyncio.sleep(self._link.pace.heartbeat)
            try:
                await self._beat_once()
            except Exception:
                logger.exception("signs of life could not be given")

    async def _beat_once(self) -> None:
        now = asyncio.get_running_loop().time()
        for call in list(self._table.running.values()):
            if call.abandoned_for(now) >= self._link.pace.grace:
                self._spawn(call.cancel(), "-")
            elif self._link.is_up and call.descriptor is not None:  # else it has not even been looked at
                await call.beat(f"{self._direct}.gone")
