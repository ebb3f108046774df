"""Whether a journal's files are there: before it is opened, while it is written, and when it is lost for good.

SQLite goes on writing into files that were removed or replaced, and makes a new database
where there is none. Either way a record would be lost in silence, and its effects could
be repeated. So a journal that was begun is never begun again without an order to do so.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from handrail.core.errors import JournalError

_WAL_HEADER = b"\x02\x02"
"""The bytes at offset 18 of a database whose entries may stand in the write-ahead log."""
_MOMENT = 0.5
"""Seconds in which a process that is making a journal has made its log too."""

HOW_TO_BACK_UP = "to copy a journal that is in use, run: handrail proof backup FILE"
_BEGIN_ANEW = (
    "put it back from a backup; if it is lost, set the rest aside and begin a new one with: handrail proof new"
)


def write_ahead_log(path: Path) -> Path:
    """The write-ahead log beside a journal."""
    return path.with_name(f"{path.name}-wal")


def mark_creation(path: Path) -> None:
    """Note beside a journal that is about to be made that it is new.

    A process that is killed while it makes one leaves the same bytes as a copy without the log; the note tells them
    apart. `unmark_creation` removes it once the log is there.

    Raises:
        OSError: The note cannot be written.
    """
    if not _size(path):
        os.close(os.open(_creation_mark(path), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def unmark_creation(path: Path) -> None:
    _creation_mark(path).unlink(missing_ok=True)


def _creation_mark(path: Path) -> Path:
    return path.with_name(f"{path.name}-new")


def check_not_lost(path: Path, key: Path | None) -> None:
    """Refuse to make a journal where one was.

    Raises:
        JournalError: Its key, or its log, is there without it.
    """
    # The key first: who makes a journal makes its file before its key.
    has_key = key is not None and key.exists()
    if _size(path):
        return
    if has_key:
        raise JournalError(f"the key {str(key)!r} is there, but the journal {str(path)!r} is not; {_BEGIN_ANEW}")
    if _size(write_ahead_log(path)):
        raise JournalError(f"the log {str(write_ahead_log(path))!r} is there, but its journal is not; {_BEGIN_ANEW}")


def check_log_present(path: Path, moment: float = _MOMENT) -> None:
    """Refuse a copy of a journal that was in use, made without its log: it would open as an empty journal.

    Raises:
        JournalError: It is one, with how to make a real copy.
    """
    end = time.monotonic() + moment
    while _is_bare(path):
        if time.monotonic() >= end:
            raise JournalError(
                f"{str(path)!r} holds no entries: it is a copy of a journal that was in use, without its log"
                f" ({write_ahead_log(path).name!r}); {HOW_TO_BACK_UP}"
            )
        time.sleep(0.005)  # another process may be making it just now


def _is_bare(path: Path) -> bool:
    # With its log there, the file may be in use by this process, and must not be opened beside SQLite: closing it would
    # drop the locks that SQLite holds on it, and another process would take itself for the last and remove the log.
    if write_ahead_log(path).exists() or _creation_mark(path).exists():
        return False
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except OSError:
        return False
    page = int.from_bytes(head[16:18], "big")
    return head[18:20] == _WAL_HEADER and _size(path) <= (page if page > 1 else 65_536)


class JournalFileWatch:
    """The files of an open journal, as they were when it was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.fspath(path.absolute())
        self._log = os.fspath(write_ahead_log(path).absolute())
        self._file_id = _id(self._file)
        self._log_id = _id(self._log)

    def check(self, *, log: bool) -> None:
        """See that what is written now will be found later; with `log`, in the log beside it too.

        Raises:
            JournalError: A file was removed or replaced.
        """
        if _id(self._file) == self._file_id and (not log or _id(self._log) == self._log_id):
            return
        raise JournalError(
            f"the journal {str(self._path)!r} was removed or replaced while it was in use, and what is written now"
            " would be lost; nothing more is recorded or run: put its files back, then start again"
        )


def _id(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def set_lost_journal_aside(path: Path, key: Path) -> list[Path]:
    """Move away what is left of a journal that is lost, so that a new one can begin, with a new key. The new names.

    Raises:
        JournalError: The journal is there, or something cannot be moved.
    """
    if _size(path) and not _is_bare(path):
        raise JournalError(f"the journal {str(path)!r} is there; nothing was moved")
    moved = []
    for left in (path, write_ahead_log(path), path.with_name(f"{path.name}-shm"), key):
        if not left.exists():
            continue
        target = next(name for n in range(1, 10_000) if not (name := left.with_name(f"{left.name}.lost-{n}")).exists())
        try:
            left.rename(target)
        except OSError as error:
            raise JournalError(f"{str(left)!r} cannot be moved: {error.strerror}") from error
        moved.append(target)
    return moved
