"""One caller per run, across processes: a lock on a file beside the journal.

The kernel drops the lock when the process dies, so nothing has to be cleaned up
after a crash. A child that was forked without exec shares the lock of its parent.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
from pathlib import Path
from urllib.parse import quote

from handrail.core.errors import JournalError, LeaseHeld

logger = logging.getLogger(__name__)

_LONGEST = 200


class FileLease:
    """The lock on a run, until released or until the process ends."""

    __slots__ = ("_handle", "_path")

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self._handle: int | None = handle

    def release(self) -> None:
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        # Removed while still locked: whoever opened the old file meanwhile sees that its name is gone.
        try:
            self._path.unlink(missing_ok=True)
        except OSError:
            logger.debug("the file of the lease %s stays; without its lock it holds nobody", self._path)
        finally:
            os.close(handle)


def acquire(journal: Path, run: str) -> FileLease:
    """Take the lease on a run of a journal.

    Raises:
        LeaseHeld: Somebody has it; the error names the process.
        JournalError: The folder of the locks cannot be used.
    """
    path = lease_path(journal, run)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        while True:
            handle = _locked(path, run)
            if _is_named(handle, path):
                break
            os.close(handle)
        _sign(handle)
    except OSError as error:
        raise JournalError(f"the lease {str(path)!r} cannot be taken ({error.strerror}); check the folder") from error
    return FileLease(path, handle)


def lease_path(journal: Path, run: str) -> Path:
    name = quote(run.encode("utf-8", "surrogatepass"), safe="")
    if not name.strip(".") or len(name) > _LONGEST:
        name = "%" + hashlib.sha256(run.encode("utf-8", "surrogatepass")).hexdigest()
    return journal.with_name(journal.name + ".leases") / name


def _locked(path: Path, run: str) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(handle, 32, 0).decode("ascii", "replace")
        os.close(handle)
        raise LeaseHeld(run, _named(holder)) from error
    except BaseException:
        os.close(handle)
        raise
    return handle


def _sign(handle: int) -> None:
    """Say in the file who has it, or let it go."""
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
    except BaseException:
        os.close(handle)
        raise


def _is_named(handle: int, path: Path) -> bool:
    """Whether the file we locked is still the one that goes by the name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _named(holder: str) -> str:
    match holder:
        case "":
            return "another process"
        case _ if holder == str(os.getpid()):
            return f"this process ({holder})"
    return f"process {holder}"
