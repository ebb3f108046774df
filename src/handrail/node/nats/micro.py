"""A worker as NATS micro sees it: it answers PING, INFO and STATS, so that `nats micro` and callers find it.

Written here, and not taken from nats-py: its services cannot take an endpoint away again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
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
    """Of one capability, since the worker began."""

    requests: int = 0
    errors: int = 0
    nanoseconds: int = 0


class MicroResponder:
    def __init__(
        self,
        link: NatsLink,
        subjects: NatsSubjects,
        *,
        worker: str,
        node_id: str,
        counts: Callable[[str], CapabilityCounts],
        refresh: Callable[[], Awaitable[None]],
    ) -> None:
        """`refresh` brings what is told up to date."""
        self._link = link
        self._subjects = subjects
        self._worker = worker
        self._node_id = node_id
        self._counts = counts
        self._refresh = refresh
        self._offers: list[CapabilityOffer] = []
        self._revision = 0
        self._listening: list[SubjectListener] = []
        self._started = ""

    async def start(self) -> None:
        self._started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        answers = {"PING": self._ping, "INFO": self._info, "STATS": self._stats}
        for verb, answer in answers.items():
            heard = partial(self._in_time, answer)
            for tail in ("", f".{self._subjects.service}", f".{self._subjects.service}.{self._worker}"):
                self._listening.append(await self._link.listen(f"$SRV.{verb}{tail}", heard))

    def _in_time(self, answer: Callable[[Msg], Coroutine[Any, Any, None]], message: Msg) -> None:
        self._link.later(answer(message))

    async def stop(self) -> None:
        await asyncio.gather(*(each.leave() for each in self._listening))
        self._listening.clear()

    async def announce(self, offers: list[CapabilityOffer], *, gone: bool = False) -> None:
        """Tell callers what there is now. What is told is served already: subscriptions are flushed before."""
        self._offers = offers
        self._revision += 1
        await self._link.send_bytes(self._subjects.news, msgspec.json.encode(self.info(gone=gone)))

    def info(self, *, gone: bool = False) -> MicroInfo:
        return MicroInfo(
            name=self._subjects.service,
            id=self._worker,
            description="Capabilities of a handrail node.",
            metadata={
                "node_id": self._node_id,
                "revision": str(self._revision),
                "direct": self._subjects.worker(self._worker),
                **({"gone": "1"} if gone else {}),
            },
            endpoints=[self._endpoint(each) for each in self._offers],
        )

    def _endpoint(self, offer: CapabilityOffer) -> MicroEndpoint:
        shown = offer.descriptor
        return MicroEndpoint(
            name=f"{shown.name}_{version_text(shown.version)}".replace(".", "_"),
            subject=self._subjects.capability(shown.name, shown.version),
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
        await self._refresh()
        await self._answer(message, self.info())

    async def _stats(self, message: Msg) -> None:
        info = self.info()
        figures = {"started": self._started, "endpoints": [self._figures(each) for each in info.endpoints]}
        await self._answer(message, {**_named(info, "stats"), **figures})

    def _figures(self, endpoint: MicroEndpoint) -> dict[str, Any]:
        counts = self._counts(f"{endpoint.metadata['capability']}@{endpoint.metadata['version']}")
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
            await self._link.send_bytes(message.reply, msgspec.json.encode(said))


def _named(info: MicroInfo, what: str) -> dict[str, Any]:
    """What every answer begins with."""
    named = {"name": info.name, "id": info.id, "version": info.version, "metadata": info.metadata}
    return {"type": f"io.nats.micro.v1.{what}_response", **named}
