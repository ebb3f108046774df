"""The runs that an executor works on: each has a ledger, and a lease so that nobody else works on it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from weakref import WeakValueDictionary

from handrail.core.events import Recorded, RunFinished, RunResumed, RunStarted
from handrail.core.ports import Clock, Journal
from handrail.execute.ledger import CallLedger
from handrail.tools.registry import RegisteredTools


class ExecutorRuns:
    """Begun, or taken up from the record, when they are first asked for."""

    def __init__(self, journal: Journal | None, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._ledgers: dict[str, CallLedger] = {}
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One for each run that is being opened: a long record keeps no other run waiting."""

    def __contains__(self, run: str) -> bool:
        return run in self._ledgers

    def __iter__(self) -> Iterator[CallLedger]:
        return iter(self._ledgers.values())

    def get(self, run: str) -> CallLedger | None:
        """The ledger of a run that is worked on."""
        return self._ledgers.get(run)

    async def open(self, run: str, *, tools: RegisteredTools, principal: str) -> CallLedger:
        """The ledger of a run. The first entry of the run, or of its resumption, says with which tools and for whom.

        Raises:
            JournalError: The record cannot be kept.
            LeaseHeld: Another process works on this run.
        """
        if (ledger := self._ledgers.get(run)) is not None:
            return ledger
        async with self._opening.setdefault(run, asyncio.Lock()):
            if run not in self._ledgers:
                self._ledgers[run] = await self._begin(run, tools, principal)
            return self._ledgers[run]

    async def _begin(self, run: str, tools: RegisteredTools, principal: str) -> CallLedger:
        if self._journal is None:
            return CallLedger(run, tools)
        lease = await self._journal.lease(run)
        try:
            history = await self._journal.history(run)
            kind = RunResumed if history else RunStarted
            begun = kind(run=run, at=self._clock.now(), tools=tools.digest, principal=principal)
            await self._journal.append(begun)
        except BaseException:
            lease.release()
            raise
        return CallLedger(run, tools, lease, [*history, begun] if history else ())

    async def history(self, run: str) -> list[Recorded]:
        """What the journal has of a run; nothing without a journal, or when the run has only just begun."""
        if self._journal is None:
            return []
        if (ledger := self._ledgers.get(run)) is not None and ledger.history is not None:
            return list(ledger.history)
        return await self._journal.history(run)

    async def finish(self, run: str, reason: str) -> None:
        """Write the last entry of a run, and let others work on it."""
        ledger = self._ledgers.pop(run, None)
        if ledger is None:
            return
        try:
            if self._journal is not None:
                await self._journal.append(RunFinished(run=run, at=self._clock.now(), reason=reason))
        finally:
            ledger.release()

    def let_go(self, run: str) -> None:
        """Of one as it is: nothing is written, and others may work on it."""
        if (ledger := self._ledgers.pop(run, None)) is not None:
            ledger.release()

    def let_go_all(self) -> None:
        for ledger in self._ledgers.values():
            ledger.release()
        self._ledgers.clear()
