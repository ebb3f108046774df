"""The parent of an interpreter without a jail. It ends when the host does, and takes everything with it.

    python -c <this> <watch fd> <directory> <program> <socket fd> <control fd>

It forks the interpreter and then only waits: for the end of that process, or for the host to hang up on the watch
socket, be it with kill -9. Then it kills what is left of all that was started below it, also what has left its
process group, and removes the directory. It stands in for the first process of a jail, and guards nobody.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

_SET_PARENT_DEATH_SIGNAL = 1
_SET_CHILD_SUBREAPER = 36
_SECONDS_TO_END = 5.0


def main() -> None:
    watch, directory, program, *fds = int(sys.argv[1]), sys.argv[2], sys.argv[3], *sys.argv[4:6]
    os.set_inheritable(watch, False)
    _prctl(_SET_CHILD_SUBREAPER, 1)
    parent = os.getpid()
    interpreter = os.fork()
    if interpreter == 0:
        os.close(watch)
        os.setsid()
        _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)
        sys.argv = ["", *fds]
        exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
        os._exit(0)
    for fd in (0, 1, 2, *map(int, fds)):
        os.close(fd)
    code = _wait(interpreter, watch)
    code = _end_all(interpreter, code)
    _remove(directory)
    os._exit(code if code >= 0 else 128 - code)


def _wait(interpreter: int, watch: int) -> int | None:
    """Until the interpreter has ended, and with which code; or until the host has hung up."""
    woken, wake = os.pipe()
    for fd in (woken, wake):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    while (code := _reap(interpreter)) is None:
        ready, _, _ = select.select([watch, woken], [], [])
        if watch in ready:
            return None
        os.read(woken, 4096)
    return code


def _reap(interpreter: int) -> int | None:
    """Let go of what has ended; the exit code of the interpreter, if it is among that."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == 0:
            return None
        if pid == interpreter:
            return os.waitstatus_to_exitcode(status)


def _end_all(interpreter: int, code: int | None) -> int:
    """Kill until no child is left: those of a child that is killed become ours. The code of the interpreter."""
    until = time.monotonic() + _SECONDS_TO_END
    _kill(-interpreter)
    while time.monotonic() < until:
        for pid in _children():
            _kill(pid)
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            time.sleep(0.001)
        elif pid == interpreter:
            code = os.waitstatus_to_exitcode(status)
    return code or 0


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listed:
            return [int(pid) for pid in listed.read().split()]
    except OSError:  # a system without it: the process group has to do
        return []


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # it has ended already


def _remove(directory: str) -> None:
    import shutil

    shutil.rmtree(directory, ignore_errors=True)


def _prctl(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
