"""One caller per run, across processes: a byte that stands for the run is locked in a file beside the journal.

The kernel drops the locks of a process that dies, so nothing has to be cleaned up after a crash. A lease takes no
file descriptor of its own: all leases of a journal share the few files of `journal.db.leases`, which are empty and
stay where they are. The byte of a run is a hash of its name.

The locks belong to the open file (Linux's `F_OFD_SETLK`), not to the process: somebody else in the process who reads
the file and closes it takes nothing away, and a thread of another journal object is kept out like another process.
Where a system has no such locks, those of the process are used. A child that is forked gets none of the leases.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary

from handrail.core.errors import JournalError, LeaseHeld

_FILES = 64
"""The kernel looks through all locks of a file, so that many leases would make each of them slow if it were one."""
_LOCK_OF_FILE: int | None = getattr(fcntl, "F_OFD_SETLK", None)
_FLOCK = struct.Struct("hhqqi")
"""`struct flock` of Linux: type, whence, start, length, process."""


class RunLease:
    """The right to work on a run, until released or until the process ends."""

    __slots__ = ("_before_release", "_leases", "byte", "file", "run")

    def __init__(
        self, leases: RunLeases, run: str, file: LockFile, byte: int, before_release: Callable[[str], None]
    ) -> None:
        self.run: str = run
        self.file: LockFile = file
        self.byte: int = byte
        self._leases = leases
        self._before_release = before_release

    def release(self) -> None:
        if self._leases.has(self):
            self._before_release(self.run)
            self._leases.give_back(self)


class RunLeases:
    """The leases that this process has on the runs of one journal. `of` gives them."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._held: dict[str, RunLease] = {}
        self._files: dict[str, LockFile] = {}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, journal: Path) -> RunLeases:
        """The leases of the journal at this path: the same object for all who opened it in this process."""
        folder = os.path.realpath(journal) + ".leases"
        with _registering:
            known = _in_process.get(folder)
            if known is None:
                known = _in_process[folder] = cls(folder)
            return known

    def take(self, run: str, before_release: Callable[[str], None] = lambda run: None) -> RunLease:
        """Take the lease on a run. `before_release` is called with it before the lease is let go.

        Raises:
            LeaseHeld: Somebody has it; the error names the process.
            JournalError: The folder of the locks cannot be used.
        """
        digest = hashlib.sha256(run.encode("utf-8", "surrogatepass")).digest()
        byte = int.from_bytes(digest[1:9], "big") >> 2 << 1  # the one behind it says who has it
        with self._lock:
            if run in self._held:
                raise LeaseHeld(run, f"this process ({os.getpid()})")
            try:
                file = self._file(f"{digest[0] % _FILES:02x}")
                if not file.lock(byte):
                    raise LeaseHeld(run, file.holder(byte))
            except OSError as error:
                raise JournalError(
                    f"no lease can be taken in {self._folder!r} ({error.strerror}); check the folder"
                ) from error
            lease = self._held[run] = RunLease(self, run, file, byte, before_release)
            return lease

    def has(self, lease: RunLease) -> bool:
        """Whether this lease is held."""
        return self._held.get(lease.run) is lease

    def give_back(self, lease: RunLease) -> None:
        """Let others have the run of this lease; nothing happens if they may already."""
        with self._lock:
            if self.has(lease):
                del self._held[lease.run]
                lease.file.unlock(lease.byte)

    def leave_to_parent(self) -> None:
        """Forgets the leases in a forked child: they are the parent's."""
        self._lock = threading.Lock()
        for file in {*self._files.values(), *(lease.file for lease in self._held.values())}:
            file.close()
        self._files, self._held = {}, {}

    def _file(self, name: str) -> LockFile:
        """A file of the folder. One that was removed is made again, since others will lock the one that is there."""
        path = f"{self._folder}/{name}"
        file = self._files.get(name)
        if file is None or not file.is_at(path):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            file = self._files[name] = LockFile(path)
        return file


class LockFile:
    """A file in which bytes are locked. It is closed when nobody refers to it any more."""

    __slots__ = ("_fd", "_id")

    def __init__(self, path: str) -> None:
        self._fd = -1
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._id = os.fstat(self._fd)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def is_at(self, path: str) -> bool:
        """Whether it is still the file of this name."""
        try:
            return os.path.samestat(self._id, os.stat(path))
        except FileNotFoundError:
            return False

    def lock(self, byte: int) -> bool:
        """Whether nobody else had the byte; then it is ours."""
        try:
            if _LOCK_OF_FILE is None:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
                return True
            fcntl.fcntl(self._fd, _LOCK_OF_FILE, _flock(fcntl.F_WRLCK, byte))
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        # That lock does not say whose it is. A lock of the process does, and stands for nothing else.
        with suppress(OSError):
            fcntl.fcntl(self._fd, fcntl.F_SETLK, _flock(fcntl.F_WRLCK, byte + 1))
        return True

    def unlock(self, byte: int) -> None:
        if _LOCK_OF_FILE is None:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, byte)
            return
        fcntl.fcntl(self._fd, fcntl.F_SETLK, _flock(fcntl.F_UNLCK, byte + 1))
        fcntl.fcntl(self._fd, _LOCK_OF_FILE, _flock(fcntl.F_UNLCK, byte))

    def holder(self, byte: int) -> str:
        """The holder of a byte, in words."""
        if _LOCK_OF_FILE is None:
            return "another process"
        found = fcntl.fcntl(self._fd, fcntl.F_GETLK, _flock(fcntl.F_WRLCK, byte + 1))
        kind, _, _, _, process = _FLOCK.unpack(found)
        return f"process {process}" if kind != fcntl.F_UNLCK and process > 0 else "another process"


def _flock(kind: int, byte: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0)


_in_process: WeakValueDictionary[str, RunLeases] = WeakValueDictionary()
_registering = threading.Lock()


def _leave_all_to_parent() -> None:
    global _registering
    _registering = threading.Lock()
    for leases in list(_in_process.values()):
        leases.leave_to_parent()


os.register_at_fork(after_in_child=_leave_all_to_parent)
