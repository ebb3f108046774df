"""The fork server: a small process with one thread that forks workers for the host, signals them and reaps them.

It has imported what a worker needs and none of the user's code, so that a fork is
cheap and clean. It is the only one that signals workers: it is their parent, so a
process id it holds cannot have passed to a stranger. When the host's end of the
control socket closes, it kills every worker with its group and ends.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import traceback
from typing import NoReturn

from handrail.core.child_process import signal_group
from handrail.execute.isolation.worker import serve_jobs
from handrail.execute.isolation.worker_frames import EXITED, FORK, FORKED, RECORD, SIGNAL


class ForkServer:
    def __init__(self, control: socket.socket, children: socket.socket) -> None:
        self._control = control
        self._children = children
        """Readable when a child has ended."""
        self._pids: set[int] = set()

    def serve(self) -> None:
        """Do what the host asks until it goes."""
        while True:
            ready, _, _ = select.select([self._control, self._children], [], [])
            if self._children in ready:
                self._children.recv(4096)
                self._reap()
            if self._control in ready and not self._obey():
                return

    def close(self) -> None:
        for pid in self._pids:
            signal_group(pid, signal.SIGKILL)
        for pid in self._pids:
            os.waitpid(pid, 0)

    def _obey(self) -> bool:
        """Read one request and do it; False when there will be no more."""
        record, fds = b"", []
        while len(record) < RECORD.size:
            data, received, _, _ = socket.recv_fds(self._control, RECORD.size - len(record), 1)
            if not data:
                return False
            record += data
            fds += received
        match RECORD.unpack(record):
            case (kind, ticket, _) if kind == FORK:
                self._fork(ticket, fds[0])
            case (kind, pid, number) if kind == SIGNAL and pid in self._pids:
                signal_group(pid, number)
        return True

    def _fork(self, ticket: int, fd: int) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            os.close(fd)
            self._tell(FORKED, ticket, -(error.errno or 1))
            return
        if pid == 0:
            self._become_worker(fd)
        _own_group(pid)
        os.close(fd)
        self._pids.add(pid)
        self._tell(FORKED, ticket, pid)

    def _become_worker(self, fd: int) -> NoReturn:
        try:
            _own_group(0)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._control.close()
            self._children.close()
            os.dup2(2, 1)
            os.set_inheritable(fd, False)
            serve_jobs(socket.socket(fileno=fd))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(70)

    def _reap(self) -> None:
        while self._pids:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            # Whatever the worker started and left behind goes with it.
            signal_group(pid, signal.SIGKILL)
            self._pids.discard(pid)
            self._tell(EXITED, pid, os.waitstatus_to_exitcode(status))

    def _tell(self, kind: int, first: int, second: int) -> None:
        self._control.sendall(RECORD.pack(kind, first, second))


def _own_group(pid: int) -> None:
    """Both sides of the fork do this, so that the group is there whichever runs first."""
    try:
        os.setpgid(pid, pid)
    except (ProcessLookupError, PermissionError):
        return  # the other side was first, or the child has ended


def main(fd: int) -> None:
    control = socket.socket(fileno=fd)
    control.set_inheritable(False)
    children, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, stack: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    server = ForkServer(control, children)
    try:
        server.serve()
    except (BrokenPipeError, ConnectionResetError):
        return  # the host went while it was being told something
    finally:
        server.close()
