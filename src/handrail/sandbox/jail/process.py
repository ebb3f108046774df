"""A program in a jail, as the host sees it."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess

from handrail.core.child_process import wait_for_exit

STARTING = 5.0
"""Seconds: how long `kill` waits for bubblewrap to say whom it has started."""


class JailedProcess:
    """Its end is the end of everything inside: the program is the first process of its own pid namespace.

    bubblewrap stays outside and ends when the program has. Its status is the program's, or 128 and the signal's number.
    """

    def __init__(self, outer: subprocess.Popen[bytes], status: int) -> None:
        self._outer = outer
        self._status = status
        self._said = b""

    @property
    def pid(self) -> int:
        """The pid of bubblewrap, outside the jail."""
        return self._outer.pid

    @property
    def returncode(self) -> int | None:
        return self._outer.poll()

    async def wait(self) -> int:
        """Waits until nothing of it is left. It does nothing to end it."""
        await wait_for_exit(self._outer)
        return self._release()

    def send(self, number: signal.Signals) -> bool:
        """Signal the program; False if it has gone. As a first process it gets only what it has a handler for."""
        inner = self._inner() if self.returncode is None else None
        if inner is None:
            return False
        try:
            signal.pidfd_send_signal(inner, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(inner)
        return True

    def kill(self) -> None:
        """End everything inside. It may be called at any time and more than once; `wait` sees it through."""
        # Of itself bubblewrap binds the program to its own life only when the jail is built: killed before that, it
        # would leave it behind. So the program is killed, and bubblewrap follows.
        # One that has ended by itself is left to bubblewrap, which still has its status to tell.
        if self.returncode is None and not self.send(signal.SIGKILL) and self._inner_pid() is None:
            self._outer.kill()

    def close(self) -> None:
        """Kill it, and do not come back before nothing is left."""
        self.kill()
        self._release()

    def _release(self) -> int:
        code = self._outer.wait()
        if self._status >= 0:
            os.close(self._status)
            self._status = -1
        return code

    def _inner(self) -> int | None:
        """A pidfd of the program."""
        pid = self._inner_pid()
        if pid is None:
            return None
        try:
            inner = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        if _parent(pid) == self._outer.pid:
            return inner
        os.close(inner)  # the number is another's by now
        return None

    def _inner_pid(self) -> int | None:
        poll = select.poll()
        poll.register(self._status, select.POLLIN)
        while b"\n" not in self._said and self._outer.returncode is None and poll.poll(STARTING * 1000):
            data = os.read(self._status, 4096)
            if not data:
                break
            self._said += data
        found = re.search(rb'"child-pid": (\d+)', self._said)
        return int(found[1]) if found else None


def _parent(pid: int) -> int | None:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as stat:
        return int(stat.read().rpartition(b")")[2].split()[1])
    return None
