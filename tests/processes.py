"""The processes of this machine, as tests see them."""

from __future__ import annotations

import ctypes
import fcntl
import os
import termios
import threading
from array import array
from pathlib import Path

_PIDFD_GETFD = 438
"""The number of the system call, on every kind of machine."""


def children(of: int | None = None) -> set[int]:
    """Processes that this one, or another, has started and not waited for, also if they have ended.

    A process of tests has others as well, such as the browser's driver: whoever kills takes those away that were there
    before. The kernel's own list of children (`/proc/…/children`) leaves some out while others end.
    """
    parent = of or os.getpid()
    return {pid for pid, (_, above) in _all() if above == parent}


def own_memory() -> int:
    """Bytes that this process has made for itself. What lies in files that it runs does not count, nor whether it is in
    memory or swapped out just now: both change with what else the machine does."""
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return sum(int(line[1]) * 1024 for line in lines if line[0] in ("RssAnon:", "VmSwap:"))


def kept_waiting() -> float:
    """Seconds for which this thread could have run and others had the processors."""
    try:
        told = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text()
    except FileNotFoundError:  # this kernel does not count them
        return 0.0
    return int(told.split()[1]) / 1e9


def is_running(pid: int) -> bool:
    stat = _stat(pid)
    return stat is not None and stat[0] not in "ZX"


def descendants(of: int) -> set[int]:
    below: dict[int, set[int]] = {}
    for pid, (_, above) in _all():
        below.setdefault(above, set()).add(pid)
    found, new = set[int](), below.get(of, set())
    while new:
        found |= new
        new = {pid for each in new for pid in below.get(each, set())} - found
    return found


def unread(pid: int) -> int:
    """Bytes that were sent to a child of ours, wherever it reads them, and that it has not read."""
    with open(os.pidfd_open(pid)) as process:
        found = [_waiting(process.fileno(), int(path.name)) for path in Path(f"/proc/{pid}/fd").iterdir()]
    return sum(found)


def _waiting(process: int, number: int) -> int:
    if number in (1, 2):  # what it has written itself
        return 0
    got = ctypes.CDLL(None).syscall(_PIDFD_GETFD, process, number, 0)
    if got < 0:
        return 0
    try:
        return int(array("i", fcntl.ioctl(got, termios.FIONREAD, bytes(4)))[0])
    except OSError:  # nothing is sent there
        return 0
    finally:
        os.close(got)


def _all() -> list[tuple[int, tuple[str, int]]]:
    pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [(pid, stat) for pid in pids if (stat := _stat(pid)) is not None]


def _stat(pid: int) -> tuple[str, int] | None:
    """Its state and its parent; None if there is no such process."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return state, int(parent)
