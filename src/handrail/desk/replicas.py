"""What replicas of a node tell each other of conversations: who saved one, and that a turn is to end.

A conversation that somebody follows here and another replica works on is read again whenever that one saves it. What
was announced may be missed; so now and then it is looked at all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from handrail.app.app import cancel_and_wait
from handrail.core.backoff import longest_wait
from handrail.core.errors import HandrailError, UsageError
from handrail.desk.open_conversations import OpenConversations
from handrail.sessions.store.shared_conversations import CHANGED
from handrail.state.topics import announce

if TYPE_CHECKING:
    from handrail.desk.desk import Desk
    from handrail.state.database import StateDatabase

logger = logging.getLogger(__name__)

_STOP = "stops"
"""The topic of the turns that are to end."""
_LOOK = 5.0
"""Seconds after which conversations are looked at although nobody told anything."""
_ENDS = 10.0
"""Seconds in which a replica ends a turn that it is told to end."""


@asynccontextmanager
async def following_replicas(desk: Desk) -> AsyncIterator[None]:
    """Take in what other replicas tell while the block lasts, if there is a state that they share."""
    if (database := desk.app.state.database) is None:
        yield
        return
    loop, heard = asyncio.get_running_loop(), _Heard(desk)

    def hear(take: Callable[[str | None], None], id: str | None) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(take, id)

    topics = ((CHANGED, heard.changed), (_STOP, heard.stop))
    leaving = [database.topics.subscribe(topic, partial(hear, take)) for topic, take in topics]
    task = asyncio.create_task(heard.follow())
    try:
        yield
    finally:
        for leave in leaving:
            leave()
        await cancel_and_wait(task)


async def stop_turn(database: StateDatabase | None, talks: OpenConversations, id: str) -> None:
    """End the turn that is under way in a conversation, wherever it is.

    Raises:
        UsageError: The replica that has it does not end it.
    """
    talk = await talks.of(id)
    if database is None or not talk.at_replica:
        return await talk.stop()
    await database.write(lambda connection: announce(connection, _STOP, id), serializable=False)
    tries, loop = 0, asyncio.get_running_loop()
    end = loop.time() + _ENDS
    while (talk := await talks.of(id)).at_replica:
        if loop.time() >= end:
            raise UsageError(
                "another replica works on this conversation and does not answer; stop it again in a moment"
            )
        tries += 1
        await asyncio.sleep(longest_wait(tries, 0.02, 0.2))
    await talk.stop()  # this one may have gone on with it, as its replica was gone


class _Heard:
    """What was heard since it was last looked at."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._changed: set[str | None] = set()
        self._stopped: set[str] = set()
        self._stopping: set[asyncio.Task[None]] = set()
        self._told = asyncio.Event()

    def changed(self, id: str | None) -> None:
        self._changed.add(id)
        self._told.set()

    def stop(self, id: str | None) -> None:
        if id is not None:
            self._stopped.add(id)
            self._told.set()

    async def follow(self) -> None:
        while True:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._told.wait(), _LOOK)
            self._told.clear()
            stopped, self._stopped = self._stopped, set()
            changed, self._changed = self._changed or {None}, set()
            for id in stopped:  # the end of a turn may take as long as its tools
                self._stopping.add(task := asyncio.create_task(_log_failure(self._desk.stop_if_here(id))))
                task.add_done_callback(self._stopping.discard)
            for each in {None} if None in changed else changed:
                await _log_failure(self._desk.heard_of(each))


async def _log_failure(work: Awaitable[None]) -> None:
    try:
        await work
    except UsageError as error:
        logger.debug("a conversation of another replica is gone: %s", error)
    except (HandrailError, OSError) as error:  # it is looked at again
        logger.warning("what another replica said of a conversation is not seen for now: %s", error)
    except Exception:
        logger.exception("what another replica said of a conversation is not seen")
