"""The open journals of this process, by path: who asks for one that is open uses it too, and the last closes it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
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
    known, is_first = _joined(path)
    try:
        yield await _opened(known, path, is_first)
    finally:
        if (last := _left(known, path)) is not None:
            await last.aclose()


async def keep_journal_open(path: Path) -> tuple[SqliteJournal, Callable[[], None]]:
    """The same, open until the function is called, in whatever thread; it waits until the end is signed.

    Raises:
        JournalError: It cannot be opened.
    """
    known, is_first = _joined(path)
    try:
        journal = await _opened(known, path, is_first)
    except BaseException:
        if (last := _left(known, path)) is not None:
            await last.aclose()
        raise

    def leave() -> None:
        if (last := _left(known, path)) is not None:
            last.close()

    return journal, leave


def _joined(path: Path) -> tuple[_OpenJournal, bool]:
    """The journal, and whether nobody has opened it yet."""
    with _lock:
        known = _open.get(_key(path))
        if known is not None and known.is_usable():
            known.users += 1
            return known, False
        known = _open[_key(path)] = _OpenJournal()
        return known, True


async def _opened(known: _OpenJournal, path: Path, is_first: bool) -> SqliteJournal:
    if is_first:
        await run_to_completion(_open_for_all(known, path))
    return await asyncio.shield(asyncio.wrap_future(known.opened))


def _left(known: _OpenJournal, path: Path) -> SqliteJournal | None:
    """The journal, if its last user has left and it is open."""
    with _lock:
        known.users -= 1
        if known.users:
            return None
        if _open.get(_key(path)) is known:
            del _open[_key(path)]
    # The first has left, so it has been opened, or could not be.
    return known.opened.result() if known.opened.exception() is None else None


async def _open_for_all(known: _OpenJournal, path: Path) -> None:
    try:
        journal = await SqliteJournal.open(path)
    except BaseException as error:
        known.opened.set_exception(error)
    else:
        known.opened.set_result(journal)
