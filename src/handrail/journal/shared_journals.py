"""The open journals of this process, by path: who asks for one that is open uses it too, and the last closes it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path

from handrail.core.tasks import run_to_completion
from handrail.journal.journal import SqliteJournal


class _OpenJournal:
    """A journal that is open, or being opened by the first who asked for it."""

    def __init__(self) -> None:
        self.opened: Future[SqliteJournal] = Future()
        self.users = 1

    def is_usable(self) -> bool:
        """Whether another may join. A journal that failed takes no more entries, but opened anew it may."""
        if not self.opened.done():
            return True
        return self.opened.exception() is None and not self.opened.result().has_failed


_open: dict[tuple[int, str], _OpenJournal] = {}
"""By process and real path. A child that was forked cannot go on with the connections and threads of its parent."""
_lock = threading.Lock()


def _key(path: Path) -> tuple[int, str]:
    return os.getpid(), os.path.realpath(path)


@asynccontextmanager
async def shared_journal(path: Path) -> AsyncIterator[SqliteJournal]:
    """The journal in a file, open while anybody in this process uses it.

    Raises:
        JournalError: It cannot be opened; or, at the end, the last entries could not be signed.
    """
    key = _key(path)
    with _lock:
        known = _open.get(key)
        if known is not None and known.is_usable():
            known.users += 1
            first = False
        else:
            known = _open[key] = _OpenJournal()
            first = True
    try:
        if first:
            await run_to_completion(_open_for_all(known, path))
        yield await asyncio.shield(asyncio.wrap_future(known.opened))
    finally:
        with _lock:
            known.users -= 1
            last = known.users == 0
            if last and _open.get(key) is known:
                del _open[key]
        if last and known.opened.exception() is None:  # the first has left, so it has been opened, or could not be
            await known.opened.result().aclose()


async def _open_for_all(known: _OpenJournal, path: Path) -> None:
    try:
        journal = await SqliteJournal.open(path)
    except BaseException as error:
        known.opened.set_exception(error)
    else:
        known.opened.set_result(journal)
