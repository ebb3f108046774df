"""Who offers what, as a caller knows it: asked of NATS micro, kept for a while, corrected by news."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from handrail.core.errors import BusError, HandrailError
from handrail.node.bus.interfaces import CapabilityOffer
from handrail.node.bus.versions import Version, satisfies, version_of
from handrail.node.nats.link import Arrived, NatsLink, NoListener
from handrail.node.nats.mailbox import Mailbox
from handrail.node.nats.messages import NatsDescribe, NatsDescribed, NatsSubjects

if TYPE_CHECKING:
    from nats.aio.msg import Msg

logger = logging.getLogger(__name__)

_LONGEST = 2.0
"""Seconds that a look around may take."""


class MicroEndpoint(Struct, frozen=True, kw_only=True):
    name: str
    subject: str
    queue_group: str
    metadata: dict[str, str] = field(default_factory=dict)


class MicroInfo(Struct, frozen=True, kw_only=True):
    """What a worker says of itself, in the form that NATS micro asks for."""

    type: str = "io.nats.micro.v1.info_response"
    name: str
    id: str
    version: str = "1.0.0"
    description: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    endpoints: list[MicroEndpoint] = field(default_factory=list)


class KnownWorker(Struct, frozen=True, kw_only=True):
    """A worker, and when it was heard of."""

    worker: str
    node_id: str
    revision: str
    seen: float
    record: str
    """Names the record that it shares with other workers; empty if it does with none."""
    offers: dict[str, tuple[Version, ...]]
    """The offers by name."""
    facts: dict[tuple[str, Version], dict[str, str]]

    def best(self, name: str, wanted: Version) -> Version | None:
        """The highest minor of it that does what is wanted."""
        return max((each for each in self.offers.get(name, ()) if satisfies(each, wanted)), default=None)


class WorkerDirectory:
    def __init__(self, link: NatsLink, subjects: NatsSubjects, clock: Callable[[], float]) -> None:
        self._link = link
        self._subjects = subjects
        self._clock = clock
        self._known: dict[str, KnownWorker] = {}
        self._at_once: dict[tuple[str, int], bool] = {}
        self._asked = float("-inf")
        self._looking = asyncio.Lock()
        self._listening = False

    def now(self) -> float:
        return self._clock()

    def workers(self) -> list[KnownWorker]:
        """The workers that were heard of lately."""
        since = self._clock() - self._link.pace.ttl
        return [each for each in self._known.values() if each.seen >= since]

    def forget(self, worker: str) -> None:
        self._known.pop(worker, None)

    def record_of(self, worker: str) -> str:
        known = self._known.get(worker)
        return "" if known is None else known.record

    def learn(self, name: str, wanted: Version, at_once: bool) -> None:
        """A worker said how it treats such calls. Others may be of another release: one that begins at once counts."""
        self._at_once[name, wanted[0]] = at_once or self._at_once.get((name, wanted[0]), False)

    def begins_at_once(self, name: str, wanted: Version) -> bool:
        """Whether a worker begins something with an effect before we confirm; what is not known is possible."""
        return self._at_once.get((name, wanted[0]), True)

    async def look(self, *, at_least: float | None = None) -> list[KnownWorker]:
        """Ask around, unless that was done lately, or after the moment `at_least`."""
        wanted = self._clock() - self._link.pace.ttl / 2 if at_least is None else at_least
        async with self._looking:
            if self._asked < wanted:
                await self._look()
        return self.workers()

    async def _look(self) -> None:
        if not self._listening:
            self._listening = True
            try:
                await self._link.listen(self._subjects.news, self._news)
            except BaseException:
                self._listening = False
                raise
        if not await self._link.wait_up(self._link.pace.lease):
            raise BusError("partition", "there is no connection to NATS")
        token, box = secrets.token_hex(12), Mailbox[Arrived]()
        reply = self._link.expect(token, box.put)
        started = self._clock()
        try:
            await self._link.send_bytes(f"$SRV.INFO.{self._subjects.service}", b"", reply)
            wait = _LONGEST  # where nobody listens, the server says so at once
            while self._clock() < started + _LONGEST:
                arrived = await box.get(wait)
                if arrived is None or isinstance(arrived, NoListener):
                    break
                if isinstance(arrived, bytes):
                    self._hear(arrived)
                    wait = self._link.pace.gather
        finally:
            self._link.forget(token)
        self._asked = started
        for worker in [each.worker for each in self._known.values() if each.seen < started]:
            self.forget(worker)

    def _news(self, message: Msg) -> None:
        self._hear(message.data)

    def _hear(self, data: bytes) -> None:
        try:
            info = msgspec.json.decode(data, type=MicroInfo)
            known = _known(info, self._clock())
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, HandrailError, KeyError):
            logger.warning("a worker on NATS describes itself in a way that cannot be read")
            return
        if info.name != self._subjects.service:
            return
        for (name, version), facts in known.facts.items():
            self.learn(name, version, facts.get("side_effects") == "true" == facts.get("idempotent"))
        if info.metadata.get("gone"):
            self.forget(known.worker)
        else:
            self._known[known.worker] = known

    # ── in full ──────────────────────────────────────────────────────────────────────────

    async def offers(self, name: str | None) -> list[CapabilityOffer]:
        """Everything that is offered, with its schemas."""
        workers = await self.look(at_least=self._clock())
        found = await asyncio.gather(*map(self._offers_of, workers))
        return [offer for each in found for offer in each if name is None or offer.descriptor.name == name]

    async def _offers_of(self, known: KnownWorker) -> list[CapabilityOffer]:
        answer = await self._link.ask(self._subjects.worker(known.worker), NatsDescribe(), self._link.pace.lease)
        if not isinstance(answer, NatsDescribed):
            self.forget(known.worker)
            return []
        return [
            offer for each in answer.offers if (offer := CapabilityOffer.from_dict(answer.node_id, each)) is not None
        ]


def _known(info: MicroInfo, now: float) -> KnownWorker:
    facts = {
        (each.metadata["capability"], version_of(each.metadata["version"])): each.metadata for each in info.endpoints
    }
    offers: dict[str, tuple[Version, ...]] = {}
    for name, version in facts:
        offers[name] = (*offers.get(name, ()), version)
    return KnownWorker(
        worker=info.id,
        node_id=info.metadata.get("node_id", ""),
        revision=info.metadata.get("revision", ""),
        seen=now,
        record=info.metadata.get("record", ""),
        offers=offers,
        facts=facts,
    )
