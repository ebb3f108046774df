"""The first answer to a question counts, whoever gives it and in whatever process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from handrail.core.confirmation import Confirmation, Decision
from handrail.core.errors import JournalError
from handrail.core.events import ConfirmationAnswered
from handrail.core.ports import Approver, Journal, SharedAnswers

logger = logging.getLogger(__name__)


async def first_decision(
    approver: Approver, question: Confirmation, elsewhere: Callable[[], Coroutine[Any, Any, ConfirmationAnswered]]
) -> Decision | ConfirmationAnswered:
    """What the approver decides; or the answer that `elsewhere` waits for, if that comes first.

    In the second case the approver is cancelled, so that nobody goes on answering a question that is closed.
    The approver runs in the task of its caller and is interrupted as `asyncio.timeout` interrupts a block. Nothing
    is watched, and no task is made, for an approver that answers at once, as a rule does.
    """
    interruption = _Interruption(elsewhere)
    try:
        decision: Decision | ConfirmationAnswered = await approver.decide(question)
    except asyncio.CancelledError:
        if not interruption.ends_here():
            raise
        decision = interruption.answer()
    else:
        if interruption.ends_here():  # the approver did not let itself be cancelled
            decision = interruption.answer()
    finally:
        await interruption.close()
    return decision


class _Interruption:
    """Waits for an answer from elsewhere, and cancels the task that made this when it comes."""

    def __init__(self, elsewhere: Callable[[], Coroutine[Any, Any, ConfirmationAnswered]]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        """How often somebody else had asked for the end of the task before."""
        self._elsewhere = elsewhere
        self._heard: asyncio.Future[ConfirmationAnswered] | None = None
        self._came = False
        self._start = asyncio.get_running_loop().call_soon(self._watch)

    def _watch(self) -> None:
        self._heard = asyncio.ensure_future(self._elsewhere())
        self._heard.add_done_callback(self._interrupt)

    def _interrupt(self, heard: asyncio.Future[ConfirmationAnswered]) -> None:
        if not heard.cancelled() and heard.exception() is None:
            self._came = True
            self._task.cancel()

    def ends_here(self) -> bool:
        """Whether the task was cancelled for the answer, and by nobody else besides."""
        return self._came and self._task.uncancel() <= self._cancelling

    def answer(self) -> ConfirmationAnswered:
        assert self._heard is not None
        return self._heard.result()

    async def close(self) -> None:
        self._start.cancel()
        if self._heard is None:
            return
        self._heard.remove_done_callback(self._interrupt)
        if not self._heard.done():
            self._heard.cancel()
            await asyncio.wait((self._heard,))


async def append_answer(
    journal: Journal, event: ConfirmationAnswered, *, durable: bool = False
) -> ConfirmationAnswered:
    """Append an answer unless the question has one; return the one that counts.

    A journal that is not shared takes every answer: nobody else can have answered.
    """
    if isinstance(journal, SharedAnswers):
        return await journal.answer(event, durable=durable)
    await journal.append(event, durable=durable)
    return event


async def find_answer(journal: Journal, run: str, request: str) -> ConfirmationAnswered | None:
    """The first answer that anybody has written into the journal. One that does not look for answers is read.

    Raises:
        JournalError: The journal cannot be read.
    """
    if isinstance(journal, SharedAnswers):
        return await journal.find_answer(run, request)
    answers = (event for event in await journal.history(run) if isinstance(event, ConfirmationAnswered))
    return next((answer for answer in answers if answer.request == request), None)


async def wait_in_journal(journal: Journal, run: str, request: str) -> ConfirmationAnswered:
    """The first answer that anybody writes into the journal. While the journal cannot be read, there is none."""
    if isinstance(journal, SharedAnswers):
        try:
            return await journal.wait_for_answer(run, request)
        except JournalError as error:
            logger.warning("answers from other processes are not seen while a call waits: %s", error)
    return await wait_forever()


async def wait_forever() -> ConfirmationAnswered:
    """Waits until it is cancelled. It stands for the answer from elsewhere where nobody else can answer."""
    nothing: asyncio.Future[ConfirmationAnswered] = asyncio.get_running_loop().create_future()
    return await nothing
