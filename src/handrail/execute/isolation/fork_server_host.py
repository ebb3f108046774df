"""The host's ends of its children: the fork server, and the workers that it forked.

Everything here runs in callbacks of one event loop. It holds no policy: when to
fork, whom to stop and what to tell the caller is the pool's business.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Protocol

from handrail.core.child_process import signal_group
from handrail.execute.isolation.worker_connection import WorkerConnection
from handrail.execute.isolation.worker_frames import CHUNK, EXITED, FORK, FORKED, RECORD, SIGNAL

_START = (
    "import sys; sys.path.append(sys.argv[2]); "
    "from handrail.execute.isolation.fork_server import main; main(int(sys.argv[1]))"
)
_HOME = str(Path(__file__).parents[3])
_SECONDS_TO_END = 2.0


class WorkerOwner(Protocol):
    """The owner of a fork server, which is told what becomes of its children."""

    @property
    def waiting(self) -> int:
        """How many calls wait for a worker."""
        ...

    def forked(self, worker: WorkerConnection) -> None: ...

    def not_forked(self, why: str) -> None: ...

    def exited(self, worker: WorkerConnection) -> None: ...

    def died(self, server: WorkerStarter) -> None:
        """The server has ended unasked, and its workers were killed."""
        ...


class WorkerStarter(Protocol):
    """Starts workers, and ends them."""

    @property
    def forking(self) -> int:
        """How many workers were asked for and are not there yet."""
        ...

    def fork(self) -> None:
        """Ask for one more worker; the owner is told when it is there."""
        ...

    def signal(self, worker: WorkerConnection, number: int) -> None:
        """Send a signal to a worker and all that it has started. One that has ended is left alone."""
        ...

    async def aclose(self) -> None:
        """End every worker, and wait for it."""
        ...


class ForkServerHandle:
    """The fork server, seen from the host."""

    def __init__(self, loop: asyncio.AbstractEventLoop, owner: WorkerOwner) -> None:
        self._loop = loop
        self._owner = owner
        self._tickets: dict[int, WorkerConnection] = {}
        self._next_ticket = 0
        self._workers: dict[int, WorkerConnection] = {}
        self._unsent: deque[tuple[bytes, socket.socket | None]] = deque()
        self._received = b""
        self._ended: asyncio.Future[None] = loop.create_future()
        self._closing = False
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, str(theirs.fileno()), _HOME],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._control.setblocking(False)
        loop.add_reader(self._control, self._read)

    @property
    def forking(self) -> int:
        """How many workers were asked for and are not there yet."""
        return len(self._tickets)

    def fork(self) -> None:
        """Ask for one more worker; the owner is told when it is there."""
        ours, theirs = socket.socketpair()
        self._next_ticket += 1
        self._tickets[self._next_ticket] = WorkerConnection(self._loop, ours)
        self._send(RECORD.pack(FORK, self._next_ticket, 0), theirs)

    def signal(self, worker: WorkerConnection, number: int) -> None:
        """Send a signal to a worker and all that it has started. One that has ended is left alone."""
        self._send(RECORD.pack(SIGNAL, worker.pid, number), None)

    async def aclose(self) -> None:
        """Kill and reap every worker, then the server."""
        if self._ended.done():
            return
        self._closing = True
        self._control.shutdown(socket.SHUT_WR)
        done, _ = await asyncio.wait({self._ended}, timeout=_SECONDS_TO_END)
        if not done:
            self._process.kill()
            await self._ended

    def _send(self, record: bytes, sock: socket.socket | None) -> None:
        if self._ended.done() or self._closing:
            if sock is not None:
                sock.close()
            return
        self._unsent.append((record, sock))
        self._write()

    def _write(self) -> None:
        while self._unsent:
            record, sock = self._unsent[0]
            try:
                sent = (
                    self._control.send(record)
                    if sock is None
                    else socket.send_fds(self._control, [record], [sock.fileno()])
                )
            except (BlockingIOError, InterruptedError):
                self._loop.add_writer(self._control, self._write)
                return
            except OSError:
                break  # it has died; reading says so too, and that is where it is dealt with
            if sock is not None:
                sock.close()
            self._unsent.popleft()
            if sent < len(record):
                self._unsent.appendleft((record[sent:], None))
        self._loop.remove_writer(self._control)

    def _read(self) -> None:
        try:
            data = self._control.recv(CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        self._received += data
        while len(self._received) >= RECORD.size:
            kind, first, second = RECORD.unpack_from(self._received)
            self._received = self._received[RECORD.size :]
            self._take(kind, first, second)

    def _take(self, kind: int, first: int, second: int) -> None:
        if kind == EXITED:
            worker = self._workers.pop(first)
            worker.ended(second)
            self._owner.exited(worker)
            return
        assert kind == FORKED
        worker = self._tickets.pop(first)
        if second < 0:
            worker.ended(None)
            self._owner.not_forked(os.strerror(-second))
        else:
            worker.pid = second
            self._workers[second] = worker
            self._owner.forked(worker)

    def _end(self) -> None:
        """The server has ended. If it was asked to, its workers went before it."""
        self._loop.remove_reader(self._control)
        self._loop.remove_writer(self._control)
        self._control.close()
        for _, sock in self._unsent:
            if sock is not None:
                sock.close()
        self._unsent.clear()
        if not self._closing:
            for pid in self._workers:
                signal_group(pid, signal.SIGKILL)
        for worker in (*self._workers.values(), *self._tickets.values()):
            worker.ended(None)
        self._process.wait()
        self._ended.set_result(None)
        if not self._closing:
            self._owner.died(self)
