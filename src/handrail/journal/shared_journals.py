"""The open journals of this process by path: whoever opens the same one shares it, and the last user closes it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path

from handrail.core.shared_uses import SharedUses
from handrail.core.tasks import run_to_completion
from handrail.journal.journal import SqliteJournal

_journals: SharedUses[Future[SqliteJournal]] = SharedUses()
"""The journals that are open, or being opened by the first who asked for them."""


@asynccontextmanager
async def shared_journal(path: Path) -> AsyncIterator[SqliteJournal]:
    """The journal in a file, open while anybody in this process uses it.

    Raises:
        JournalError: It cannot be opened; or, at the end, the last entries could not be signed.
    """
    use = _JournalUse(path)
    try:
        yield await use.opened()
    finally:
        if (last := use.leave()) is not None:
            await last.aclose()


async def keep_journal_open(path: Path) -> tuple[SqliteJournal, Callable[[], None]]:
    """The same, open until the function is called, in whatever thread; it waits until the end is signed.

    Raises:
        JournalError: It cannot be opened.
    """
    use = _JournalUse(path)
    try:
        journal = await use.opened()
    except BaseException:
        if (last := use.leave()) is not None:
            await last.aclose()
        raise

    def leave() -> None:
        if (last := use.leave()) is not None:
            last.close()

    return journal, leave


class _JournalUse:
    """One who uses the journal in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._made: Future[SqliteJournal] = Future()
        self._use = _journals.join(os.path.realpath(path), self, self._made, _is_usable)

    async def opened(self) -> SqliteJournal:
        if self._use.value is self._made:
            await run_to_completion(self._open())
        return await asyncio.shield(asyncio.wrap_future(self._use.value))

    async def _open(self) -> None:
        try:
            journal = await SqliteJournal.open(self._path)
        except BaseException as error:
            self._made.set_exception(error)
        else:
            self._made.set_result(journal)

    def leave(self) -> SqliteJournal | None:
        """The journal, if its last user has left and it is open."""
        if not _journals.leave(self._use, self):
            return None
        opened = self._use.value  # the first has left, so it has been opened, or could not be
        return opened.result() if opened.exception() is None else None


def _is_usable(opened: Future[SqliteJournal]) -> bool:
    """Whether another may join. A journal that failed takes no more entries, but opened again it may."""
    if not opened.done():
        return True
    return opened.exception() is None and not opened.result().has_failed
