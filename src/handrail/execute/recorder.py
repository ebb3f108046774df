"""The record of one run as the steps of a call see it: journal, ledger, clock and listeners in one place."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Literal

from handrail.core.calls import ToolResult
from handrail.core.events import (
    CallAmended,
    CallIntended,
    ConfirmationAnswered,
    ConfirmationRequested,
    Emit,
    Event,
    ProgressListener,
    Recorded,
    ignore_event,
)
from handrail.core.first_answer import append_answer, find_answer, wait_in_journal
from handrail.core.ids import NewId
from handrail.core.ports import AppendsAtOnce, Clock, EffectJournal, Journal
from handrail.core.tasks import run_to_completion
from handrail.execute.ledger import CallLedger


class RunRecorder:
    """Writes an event down before anybody is told of it."""

    __slots__ = ("_clock", "_effects", "_emit", "_journal", "_quick", "_tell_recorded", "ledger", "new_id")

    def __init__(
        self,
        ledger: CallLedger,
        journal: Journal | None,
        quick: AppendsAtOnce | None,
        effects: EffectJournal | None,
        clock: Clock,
        new_id: NewId,
        emit: Emit,
    ) -> None:
        """`quick` is the journal, if it can append without a wait; `effects`, if it finds side effects."""
        self.ledger: CallLedger = ledger
        self.new_id: NewId = new_id
        self._quick = quick
        self._effects = effects
        self._journal = journal
        self._clock = clock
        self._emit = emit
        self._tell_recorded: Emit = ignore_event if isinstance(emit, ProgressListener) else emit

    @property
    def run(self) -> str:
        return self.ledger.run

    @property
    def instant(self) -> bool:
        """Whether there is nothing to write to and nobody listening: then no event need be made."""
        return self._journal is None and self._tell_recorded is ignore_event

    @property
    def is_recorded(self) -> bool:
        """Whether there is a journal."""
        return self._journal is not None

    @property
    def listener(self) -> Emit:
        """Receives events, besides the record."""
        return self._emit

    def now(self) -> int:
        return self._clock.now()

    async def record(self, event: Recorded, *, durable: bool = False) -> None:
        """Records an event and tells the listeners.

        Raises:
            JournalError: It is not written, so what depends on it must not happen.
        """
        if self._journal is not None:
            await self._journal.append(event, durable=durable)
        await self._tell(event)

    async def _tell(self, event: Recorded) -> None:
        self.ledger.note(event)
        if self._tell_recorded is not ignore_event:
            await self._tell_recorded(event)

    async def record_all(self, events: Iterable[Recorded], *, durable: bool = False) -> None:
        """Records events one after the other.

        Raises:
            JournalError: One of them is not written, nor those after it.
        """
        for event in events:
            await self.record(event, durable=durable)

    def record_at_once(self, event: Recorded, *, durable: bool = False) -> bool:
        """Records an event if that needs no wait and nobody listens; False if it does, and nothing was done.

        Raises:
            JournalError: It is not written, so what depends on it must not happen.
        """
        if self._tell_recorded is not ignore_event:
            return False
        if self._journal is not None:
            quick = self._quick
            if quick is None or not quick.append_at_once(event, durable=durable):
                return False
        self.ledger.note(event)
        return True

    def record_soon(self, event: Recorded) -> bool:
        """Records an event on which nothing depends but what is recorded after it, if nobody listens and the journal
        can put it off; False if not, and nothing was done.

        Raises:
            JournalError: It cannot be written.
        """
        if self._tell_recorded is not ignore_event:
            return False
        if self._journal is not None and (self._quick is None or not self._quick.append_soon(event)):
            return False
        self.ledger.note(event)
        return True

    async def record_whole(self, event: Recorded, *, durable: bool = False) -> None:
        """Records an event even if the caller is cancelled meanwhile.

        Raises:
            JournalError: It is not written, so what depends on it must not happen.
        """
        if not self.record_at_once(event, durable=durable):
            await run_to_completion(self.record(event, durable=durable))

    async def record_intent(self, event: CallIntended, effect: bytes | None, seen: int | None) -> bool:
        """Record a side effect that is about to run; False if an equal one was begun after the one that was seen.

        Raises:
            JournalError: It is not written, so the call must not run.
        """
        if effect is None or self._effects is None:
            if not self.record_at_once(event, durable=True):
                await self.record(event, durable=True)
            return True
        if not await self._effects.append_effect(event, effect, seen, durable=True):
            return False
        await self._tell(event)
        return True

    async def record_question(self, event: ConfirmationRequested, identity: bytes | None) -> None:
        """Record a question, so that it is also found by what it asks about.

        Raises:
            JournalError: It is not written.
        """
        if identity is None or self._effects is None:
            await self.record(event)
            return
        seen = None
        while not await self._effects.append_effect(event, identity, seen):
            last = await self._effects.last_effect(identity)
            seen = None if last is None else last.seq
        await self._tell(event)

    async def amend(self, tool: str, result: ToolResult, why: Literal["late", "person"]) -> None:
        """Records what became of a call after its answer was given."""
        event = CallAmended(
            run=self.run,
            at=self.now(),
            call_id=result.tool_call_id,
            tool=tool,
            outcome=result.outcome,
            why=why,
            result=result,
        )
        await self.record(event, durable=why == "person")

    async def record_answer(self, event: ConfirmationAnswered) -> ConfirmationAnswered:
        """Write an answer down unless the question has one; return the one that counts, which is the first.

        Raises:
            JournalError: It is not written, so what depends on it must not happen.
        """
        first = self.ledger.answers.get(event.request)
        if first is None and self._journal is not None:
            first = await append_answer(self._journal, event)
        await self.take_answer(first := first or event)
        return first

    async def take_answer(self, answer: ConfirmationAnswered) -> None:
        """Take in an answer that is on record, whoever wrote it."""
        self.ledger.note(answer)
        await self.emit(answer)

    async def wait_anywhere(self, request: str) -> ConfirmationAnswered:
        """The answer to a question, once somebody has given it: in this process, or in another by the journal."""
        if self._journal is None:
            return await self.ledger.wait_in_process(request)
        watching = asyncio.ensure_future(wait_in_journal(self._journal, self.run, request))
        watching.add_done_callback(self._note_answer)
        try:
            return await self.ledger.wait_in_process(request)
        finally:
            watching.cancel()

    def _note_answer(self, watching: asyncio.Future[ConfirmationAnswered]) -> None:
        if not watching.cancelled() and watching.exception() is None:
            self.ledger.note(watching.result())

    async def emit(self, event: Event) -> None:
        if self._emit is not ignore_event:
            await self._emit(event)

    async def refresh(self, request: str) -> None:
        """Take in the answer to a question, if another process wrote one."""
        if request in self.ledger.answers or self._journal is None:
            return
        if (answer := await find_answer(self._journal, self.run, request)) is not None:
            self.ledger.note(answer)
