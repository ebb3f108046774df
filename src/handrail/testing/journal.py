"""A journal in memory, which can be told to fail. It proves that the port asks for nothing that only SQLite has."""

from __future__ import annotations

import asyncio

from handrail.core.errors import JournalError
from handrail.core.events import CallIntended, ConfirmationAnswered, ConfirmationRequested, Recorded
from handrail.core.in_memory_leases import InMemoryLease, InMemoryLeases
from handrail.core.ports import EffectMark


class MemoryJournal:
    """Keeps events in a list.

    `fail_at` makes the append with that number fail, and every later one, as a full disk
    does: 0 is the first. A failed append keeps nothing.
    """

    def __init__(self, *, fail_at: int | None = None) -> None:
        self.events: list[Recorded] = []
        self.durable: list[bool] = []
        """For each event, whether its caller waited for the disk."""
        self.fail_at = fail_at
        self.closed: bool = False
        self._leases = InMemoryLeases()
        self._answered = asyncio.Event()
        self._effects: dict[bytes, EffectMark] = {}

    async def append(self, event: Recorded, *, durable: bool = False) -> None:
        if self.closed:
            raise JournalError("the journal is closed; open another to append")
        if self.fail_at is not None and len(self.events) >= self.fail_at:
            raise JournalError(f"the journal was told to fail at append {self.fail_at}")
        self.events.append(event)
        self.durable.append(durable)
        if isinstance(event, ConfirmationAnswered):
            self._answered.set()

    async def answer(self, event: ConfirmationAnswered, *, durable: bool = False) -> ConfirmationAnswered:
        if (first := self._answer(event.run, event.request)) is not None:
            return first
        await self.append(event, durable=durable)
        return event

    async def last_effect(self, identity: bytes) -> EffectMark | None:
        return self._effects.get(identity)

    async def append_effect(
        self, event: CallIntended | ConfirmationRequested, identity: bytes, after: int | None, *, durable: bool = False
    ) -> bool:
        known = self._effects.get(identity)
        if after != (None if known is None else known.seq):
            return False
        await self.append(event, durable=durable)
        self._effects[identity] = EffectMark(len(self.events) - 1, event.run, event.call_id)
        return True

    async def find_answer(self, run: str, request: str) -> ConfirmationAnswered | None:
        return self._answer(run, request)

    async def wait_for_answer(self, run: str, request: str) -> ConfirmationAnswered:
        while (first := self._answer(run, request)) is None:
            self._answered.clear()
            await self._answered.wait()
        return first

    def _answer(self, run: str, request: str) -> ConfirmationAnswered | None:
        answers = (event for event in self.events if isinstance(event, ConfirmationAnswered))
        return next((each for each in answers if (each.run, each.request) == (run, request)), None)

    async def history(self, run: str) -> list[Recorded]:
        return [event for event in self.events if event.run == run]

    async def lease(self, run: str) -> InMemoryLease:
        return self._leases.take(run)

    async def aclose(self) -> None:
        self.closed = True
