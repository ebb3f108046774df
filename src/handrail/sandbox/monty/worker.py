"""Confines a worker process of Monty from outside: no files, no sockets, no core dumps, and limited processor time.

Monty needs none of these limits to keep code in. They hold if Monty does not: what takes over a worker cannot open
anything, and what computes on after its host was killed ends. Linux only; elsewhere a worker is as Monty makes it.
"""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import time
from contextlib import suppress

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
_BESIDE_THE_HEAP = 2**30
_COPIES = 4
"""How many times its size the heap takes: what is sent is written out first."""


class MontyWorker:
    def __init__(self, pid: int | None, memory_bytes: int) -> None:
        self._pid = pid or 0
        self._handle = -1
        if pid is not None and sys.platform == "linux":
            self._handle = os.pidfd_open(pid)
            try:
                self._confine(memory_bytes)
            except OSError:
                self.kill()
                raise

    def _confine(self, memory_bytes: int) -> None:
        import resource

        space = _COPIES * memory_bytes + _BESIDE_THE_HEAP
        for what, most in (
            (resource.RLIMIT_NOFILE, 0),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_AS, space),
        ):
            _, hard = resource.prlimit(self._pid, what)
            resource.prlimit(self._pid, what, (_lower(most, hard), _lower(most, hard)))

    def allow(self, seconds: float) -> None:
        """Allows so much computing time from now on, and a second or two more; then the system ends it."""
        if not self._is_alive():
            return
        import resource

        with suppress(OSError):  # it has ended meanwhile
            used = time.clock_gettime((~self._pid << 3) | 2)  # what clock_getcpuclockid(3) makes of a process id
            _, hard = resource.prlimit(self._pid, resource.RLIMIT_CPU)
            resource.prlimit(self._pid, resource.RLIMIT_CPU, (_lower(math.ceil(used + seconds) + 1, hard), hard))

    def memory(self) -> int | None:
        """Bytes of its own, if that can be known. How much of its program is in memory as well, the system decides."""
        if self._handle < 0:
            return None
        with suppress(OSError), open(f"/proc/{self._pid}/statm") as told:
            _, resident, of_files, *_ = map(int, told.read().split())
            if self._is_alive():  # asked last: so it was not another's that was read
                return (resident - of_files) * _PAGE
        return None

    def _is_alive(self) -> bool:
        """Its number may be another's as soon as it has ended; the handle never is."""
        return self._handle >= 0 and not select.select([self._handle], [], [], 0)[0]

    def kill(self) -> None:
        """End it now, and forget it."""
        if self._handle < 0:
            return
        try:
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended by itself
        finally:
            os.close(self._handle)
            self._handle = -1


def _lower(limit: int, hard: int) -> int:
    """Lowers a limit. Only root may ask for more than there was; -1 is no limit."""
    return limit if hard < 0 else min(limit, hard)
