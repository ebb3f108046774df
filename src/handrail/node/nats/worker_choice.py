"""Whom to ask for one call: anybody who offers it, or, once that did not do, one after the other."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.errors import BusError
from handrail.node.bus.routing import other_version_error
from handrail.node.bus.versions import Version, satisfies, version_text
from handrail.node.nats.messages import NatsAccepted, NatsSubjects
from handrail.node.nats.worker_directory import KnownWorker, WorkerDirectory


class BegunCall(NamedTuple):
    """Who was told to begin a call that may not run twice."""

    worker: str
    record: str
    """The record that it shares with other workers; empty if it does with none, or that is not known."""


BegunCalls = BoundedMemory[str, BegunCall]
"""By call: asked for once more, only that worker can answer, or another one with the same record."""


@dataclass(slots=True, eq=False, repr=False)
class WorkerChoice:
    """The workers that one call may go to, and those that did not do."""

    directory: WorkerDirectory
    subjects: NatsSubjects
    name: str
    wanted: Version
    _: KW_ONLY
    begun: BegunCalls
    pinned: BegunCall | None
    """The worker that may have done it already. Only it can be asked, or one that has its record."""
    chance: Callable[[], float]
    direct: str | None = None
    """The one that was asked by name last."""
    last: BusError | None = None
    """Why the last one did not take it."""
    _avoided: set[str] = field(default_factory=set)
    _alone: bool = False
    """Whether workers are asked by name."""
    _unsure: bool = False
    """Whether those we know of may be gone."""

    @property
    def community(self) -> str:
        return self.subjects.community

    def worker(self, worker: str) -> str:
        return self.subjects.worker(worker)

    async def subject(self) -> str:
        """The subject to ask now.

        Raises:
            BusError: There is nobody left.
        """
        if self.pinned is not None:
            self.direct = self.pinned.worker
            return self.subjects.worker(self.direct)
        if not self._alone and self._anybody_will_do():
            self.direct = None
            return self.subjects.capability(self.name, self.wanted)
        left = (not self._unsure and self._left(self.directory.workers())) or self._left(
            await self.directory.look(at_least=self.directory.now())
        )
        self._unsure = False
        if not left:
            raise self._why_not(self.directory.workers())
        self.direct = random.Random(self.chance()).choice(left).worker
        return self.subjects.worker(self.direct)

    def avoid(self, worker: str | None, why: BusError | None = None) -> None:
        """Ask another one than this; None is that whoever was asked said nothing: ask those who still talk."""
        self._alone = True
        if worker is None:
            self._unsure = True
            return
        self._avoided.add(worker)
        self.last = why or self.last

    async def nobody(self) -> None:
        """Notes that nobody listened: either there is nobody, or what we knew was wrong.

        Raises:
            BusError: There is nobody (`not_found`, `schema_mismatch` with what there is, or `partition`).
        """
        if self.direct is not None:
            self.directory.forget(self.direct)
        if self.pinned is not None:
            if self.pinned.record:
                return
            raise BusError("partition", "the worker that began this call cannot be reached")
        workers = await self.directory.look(at_least=self.directory.now())
        if not self._left(workers):
            raise self._why_not(workers)
        self._alone = True

    def pin(self, worker: str) -> None:
        """From now on it is the one that may have done it."""
        self.pinned = BegunCall(worker, self.directory.record_of(worker))

    async def inherit(self, worker: str | None) -> bool:
        """Turn to another worker with the record of the one that may have done it, which is gone or cannot say; False
        if there is none. It finds the call there, and does not begin it a second time.

        Raises:
            BusError: Nobody can be asked who there is.
        """
        if self.pinned is None or not self.pinned.record:
            return False
        self._avoided.update({self.pinned.worker, worker or self.pinned.worker})
        workers = await self.directory.look(at_least=self.directory.now())
        heirs = [each for each in self._left(workers) if each.record == self.pinned.record]
        if not heirs:
            return False
        self.pinned = BegunCall(random.Random(self.chance()).choice(heirs).worker, self.pinned.record)
        return True

    def forgive(self) -> None:
        """Lets workers that were avoided be asked again."""
        self._avoided.clear()

    def begins(self, call_id: str, worker: str) -> None:
        self.begun[call_id] = BegunCall(worker, self.directory.record_of(worker))

    def not_begun(self, call_id: str) -> None:
        """This attempt surely was not; of an earlier call by this id, that says nothing."""
        if self.pinned is None:
            self.begun.pop(call_id, None)

    @property
    def may_begin_at_once(self) -> bool:
        """Whether a worker that said nothing may have begun something with an effect: one that may run again."""
        return self.directory.begins_at_once(self.name, self.wanted)

    def learn(self, accepted: NatsAccepted) -> None:
        self.directory.learn(self.name, self.wanted, accepted.side_effects and accepted.retriable)

    def _anybody_will_do(self) -> bool:
        """Whether every worker of that major, as far as we know, has the minor too."""
        return not any(
            offered[0] == self.wanted[0]
            and not satisfies(offered, self.wanted)
            and known.best(self.name, self.wanted) is None
            for known in self.directory.workers()
            for offered in known.offers.get(self.name, ())
        )

    def _left(self, workers: list[KnownWorker]) -> list[KnownWorker]:
        return [
            each
            for each in workers
            if each.worker not in self._avoided and each.best(self.name, self.wanted) is not None
        ]

    def _why_not(self, workers: list[KnownWorker]) -> BusError:
        if self.last is None or self.last.code == "not_found":  # what one does not have, says nothing of the others
            return self._missing(workers)
        return self.last

    def _missing(self, workers: list[KnownWorker]) -> BusError:
        asked = f"{self.name}@{version_text(self.wanted)}"
        if not workers:
            return BusError("partition", f"no worker of the community {self.community!r} can be reached")
        if any(each.best(self.name, self.wanted) is not None for each in workers):
            return BusError("partition", f"every worker that offers {asked} was lost")
        offered = {version for each in workers for version in each.offers.get(self.name, ())}
        if not offered:
            return BusError("not_found", f"nobody offers {asked}", outcome="unknown_tool")
        return other_version_error(self.name, self.wanted, offered)
