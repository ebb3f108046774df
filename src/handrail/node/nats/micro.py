"""A worker as NATS micro sees it: it answers PING, INFO and STATS, so that `nats micro` and callers find it.

Written here, and not taken from nats-py: its services cannot take an endpoint away again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from handrail.node.bus.interfaces import CapabilityOffer
from handrail.node.bus.versions import version_text
from handrail.node.nats.link import NatsLink, SubjectListener
from handrail.node.nats.messages import QUEUE, NatsSubjects
from handrail.node.nats.worker_directory import MicroEndpoint, MicroInfo

if TYPE_CHECKING:
    from nats.aio.msg import Msg


class CapabilityCounts(msgspec.Struct):
    """The counts of one capability since the worker began."""

    requests: int = 0
    errors: int = 0
    nanoseconds: int = 0


@dataclass(eq=False, repr=False)
class MicroResponder:
    link: NatsLink
    subjects: NatsSubjects
    _: KW_ONLY
    worker: str
    node_id: str
    record: str
    """Names the record that its bus shares with other workers."""
    counts: Callable[[str], CapabilityCounts]
    refresh: Callable[[], Awaitable[None]]
    """Brings what is told up to date."""
    _offers: list[CapabilityOffer] = field(default_factory=list)
    _revision: int = 0
    _listening: list[SubjectListener] = field(default_factory=list)
    _started: str = ""

    async def start(self) -> None:
        self._started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        answers = {"PING": self._ping, "INFO": self._info, "STATS": self._stats}
        for verb, answer in answers.items():
            heard = partial(self._in_time, answer)
            for tail in ("", f".{self.subjects.service}", f".{self.subjects.service}.{self.worker}"):
                self._listening.append(await self.link.listen(f"$SRV.{verb}{tail}", heard))

    def _in_time(self, answer: Callable[[Msg], Coroutine[Any, Any, None]], message: Msg) -> None:
        self.link.later(answer(message))

    async def stop(self) -> None:
        await asyncio.gather(*(each.leave() for each in self._listening))
        self._listening.clear()

    async def announce(self, offers: list[CapabilityOffer], *, gone: bool = False) -> None:
        """Tell callers what there is now. What is told is served already: subscriptions are flushed before."""
        self._offers = offers
        self._revision += 1
        await self.link.send_bytes(self.subjects.news, msgspec.json.encode(self.info(gone=gone)))

    def info(self, *, gone: bool = False) -> MicroInfo:
        return MicroInfo(
            name=self.subjects.service,
            id=self.worker,
            description="Capabilities of a handrail node.",
            metadata={
                "node_id": self.node_id,
                "revision": str(self._revision),
                "direct": self.subjects.worker(self.worker),
                **({"record": self.record} if self.record else {}),
                **({"gone": "1"} if gone else {}),
            },
            endpoints=[self._endpoint(each) for each in self._offers],
        )

    def _endpoint(self, offer: CapabilityOffer) -> MicroEndpoint:
        shown = offer.descriptor
        return MicroEndpoint(
            name=f"{shown.name}_{version_text(shown.version)}".replace(".", "_"),
            subject=self.subjects.capability(shown.name, shown.version),
            queue_group=QUEUE,
            metadata={
                "capability": shown.name,
                "version": version_text(shown.version),
                "schema_hash": offer.schema_hash,
                "side_effects": str(shown.side_effects).lower(),
                "idempotent": str(shown.idempotent).lower(),
                "timeout_seconds": f"{shown.timeout_seconds:g}",
            },
        )

    async def _ping(self, message: Msg) -> None:
        await self._answer(message, _named(self.info(), "ping"))

    async def _info(self, message: Msg) -> None:
        await self.refresh()
        await self._answer(message, self.info())

    async def _stats(self, message: Msg) -> None:
        info = self.info()
        figures = {"started": self._started, "endpoints": [self._figures(each) for each in info.endpoints]}
        await self._answer(message, {**_named(info, "stats"), **figures})

    def _figures(self, endpoint: MicroEndpoint) -> dict[str, Any]:
        counts = self.counts(f"{endpoint.metadata['capability']}@{endpoint.metadata['version']}")
        return {
            "name": endpoint.name,
            "subject": endpoint.subject,
            "queue_group": endpoint.queue_group,
            "num_requests": counts.requests,
            "num_errors": counts.errors,
            "processing_time": counts.nanoseconds,
            "average_processing_time": counts.nanoseconds // max(counts.requests, 1),
            "last_error": "",
        }

    async def _answer(self, message: Msg, said: Any) -> None:
        if message.reply:
            await self.link.send_bytes(message.reply, msgspec.json.encode(said))


def _named(info: MicroInfo, what: str) -> dict[str, Any]:
    """What every answer begins with."""
    named = {"name": info.name, "id": info.id, "version": info.version, "metadata": info.metadata}
    return {"type": f"io.nats.micro.v1.{what}_response", **named}
