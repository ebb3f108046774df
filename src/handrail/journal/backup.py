"""A copy of a journal that is whole, even while others write it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from handrail.core.errors import UsageError
from handrail.core.keyfile import sync_folder
from handrail.journal.database import connect_existing, explain_failure


def back_up(path: Path, target: Path) -> int:
    """Copy a journal as it stands into a new file that needs no other file beside it. How many entries it has.

    The key is not copied: whoever has it could sign another history.

    Raises:
        UsageError: The target is there already.
        JournalError: The journal cannot be read, or the copy not written.
    """
    try:
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError as error:
        raise UsageError(f"{str(target)!r} is there already; name a file that does not exist") from error
    except OSError as error:
        raise explain_failure(target, error) from error
    try:
        count = _copied(path, target)
        sync_folder(target.absolute().parent)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return count


def _copied(path: Path, target: Path) -> int:
    with closing(connect_existing(path, "ro")) as source, closing(sqlite3.connect(target)) as copy:
        try:
            source.backup(copy)
            copy.execute("PRAGMA synchronous = FULL")
            copy.execute("PRAGMA journal_mode = DELETE")  # so it can be read where nothing can be written
            return int(copy.execute("SELECT count(*) FROM entry").fetchone()[0])
        except sqlite3.Error as error:
            raise explain_failure(target, error) from error
