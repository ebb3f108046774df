"""Waiting for a lock of SQLite that it does not wait for itself: the one that makes a new file a WAL."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable


def primary_code(error: sqlite3.Error) -> int:
    """The kind of an error, without its variants; errors of the sqlite3 module itself have no code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def retry_while_busy(step: Callable[[], object], patience: float) -> None:
    """Does a step as soon as no other process keeps the file locked.

    Raises:
        sqlite3.Error: It fails, or the file is locked for longer than `patience` seconds.
    """
    end = time.monotonic() + patience
    while True:
        try:
            step()
            return
        except sqlite3.OperationalError as error:
            if primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                raise
            time.sleep(0.005)
