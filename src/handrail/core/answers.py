"""The first answer to a question is the answer, whoever gives it and in whatever process."""

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


async def decided(
    approver: Approver, question: Confirmation, elsewhere: Callable[[], Coroutine[Any, Any, ConfirmationAnswered]]
) -> Decision | ConfirmationAnswered:
    """What the approver decides; or the answer that `elsewhere` waits for, if that comes first.

    In the second case the approver is cancelled, so that nobody goes on answering a question that is closed.
    """
    asking = asyncio.ensure_future(approver.decide(question))
    heard: asyncio.Future[ConfirmationAnswered] | None = None
    try:
        await asyncio.sleep(0)  # a rule has answered by now, and nothing has to be watched for it
        if not asking.done():
            heard = asyncio.ensure_future(elsewhere())
            await asyncio.wait((asking, heard), return_when=asyncio.FIRST_COMPLETED)
        return heard.result() if heard is not None and heard.done() else asking.result()
    finally:
        await _end(asking, *(() if heard is None else (heard,)))


async def record_answer(
    journal: Journal, event: ConfirmationAnswered, *, durable: bool = False
) -> ConfirmationAnswered:
    """Append an answer unless the question has one; return the one that counts.

    A journal that is not shared takes every answer: nobody else can have answered.
    """
    if isinstance(journal, SharedAnswers):
        return await journal.answer(event, durable=durable)
    await journal.append(event, durable=durable)
    return event


async def wait_for_answer(journal: Journal, run: str, request: str) -> ConfirmationAnswered:
    """The first answer that anybody writes into the journal. While the journal cannot be read, there is none."""
    if isinstance(journal, SharedAnswers):
        try:
            return await journal.wait_for_answer(run, request)
        except JournalError as error:
            logger.warning("answers from other processes are not seen while a call waits: %s", error)
    return await never()


async def never() -> ConfirmationAnswered:
    """Where nobody else can answer: whoever waits for this is cancelled in the end."""
    nothing: asyncio.Future[ConfirmationAnswered] = asyncio.get_running_loop().create_future()
    return await nothing


async def _end(*tasks: asyncio.Future[Any]) -> None:
    """Cancel what is still under way, and wait until it has ended."""
    left = {task for task in tasks if not task.done()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # an approver that fails while it is cancelled has nobody to tell
