"""The host's ends of jailed workers: each is started behind a jail of its own, and ended with everything in it.

It stands where the fork server stands for plain workers. Nothing is forked from
anything: what a tool has done to one worker cannot be in the next.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from dataclasses import KW_ONLY, dataclass, field

from handrail.core.errors import HandrailError
from handrail.execute.isolation.fork_server_host import WorkerOwner
from handrail.execute.isolation.worker_connection import WorkerConnection
from handrail.sandbox.jail import Jail, JailedProcess, lockdown_filter

_START = (
    "import sys; sys.path[:] = sys.argv[5:]; "
    "from handrail.execute.isolation.jail_worker import main; main(*sys.argv[1:5])"
)
_LAST_WORDS = 2**16
"""Bytes, as many as a pipe holds."""
_SECONDS_TO_LEAVE = 0.5
_AT_ONCE = min(8, max(2, os.cpu_count() or 1))
"""Workers that may be coming up at a time. More would only be in each other's way, and in the host's."""
_SIGNALLED = 128
"""What bubblewrap adds to the number of the signal that a program died by."""


@dataclass(eq=False)
class JailStarter:
    """Starts each worker behind a jail of its own."""

    loop: asyncio.AbstractEventLoop
    owner: WorkerOwner
    _: KW_ONLY
    jail: Jail
    path: tuple[str, ...]
    memory_bytes: int
    frame_bytes: int
    _jailed: dict[WorkerConnection, JailedProcess] = field(default_factory=dict, init=False)
    _rising: set[int] = field(default_factory=set, init=False)
    """The pipes from the standard error of workers that have not started yet."""
    _ends: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    @property
    def forking(self) -> int:
        return 0  # a worker is there at once, its first job waiting in its socket; or it is started when others are up

    def fork(self) -> None:
        if len(self._rising) < _AT_ONCE:
            self._start()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        complaints, complain = os.pipe()
        os.set_blocking(complaints, False)
        try:
            jailed = self.jail.spawn(self._command(theirs.fileno()), pass_fds=(theirs.fileno(),), stderr=complain)
        except (OSError, HandrailError) as error:
            ours.close()
            os.close(complaints)
            self.owner.not_forked(str(error))
            return
        finally:
            theirs.close()
            os.close(complain)
        worker = WorkerConnection(self.loop, ours, self.frame_bytes, on_close=self._hung_up)
        worker.pid = jailed.pid
        self._jailed[worker] = jailed
        self._rising.add(complaints)
        self.loop.add_reader(complaints, self._risen, complaints)
        task = self.loop.create_task(self._end(worker, jailed, complaints))
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)
        self.owner.forked(worker)

    def _risen(self, complaints: int) -> None:
        """A worker is up, or will never be: now those that still wait."""
        if complaints in self._rising:
            self._rising.remove(complaints)
            self.loop.remove_reader(complaints)
            while self.owner.waiting and len(self._rising) < _AT_ONCE:
                self._start()

    def signal(self, worker: WorkerConnection, number: int) -> None:
        """Whatever the signal, it is killed: there is nothing outside its jail that it could put in order."""
        if (jailed := self._jailed.get(worker)) is not None:
            jailed.kill()

    def _hung_up(self, worker: WorkerConnection) -> None:
        """Most likely it is ending, and how is worth knowing; whatever it is about, it is not for long."""
        self.loop.call_later(_SECONDS_TO_LEAVE, self.signal, worker, signal.SIGKILL)

    async def aclose(self) -> None:
        for jailed in self._jailed.values():
            jailed.kill()
        if self._ends:
            await asyncio.wait(self._ends)

    def _command(self, fd: int) -> list[str]:
        facts = (str(fd), str(self.memory_bytes), str(self.jail.limits.processes), lockdown_filter().hex())
        return [self.jail.python, "-I", "-S", "-B", "-c", _START, *facts, *self.path]

    async def _end(self, worker: WorkerConnection, jailed: JailedProcess, complaints: int) -> None:
        code = await jailed.wait()
        self._risen(complaints)
        try:
            worker.last_words = os.read(complaints, _LAST_WORDS).decode(errors="replace").strip()
        except BlockingIOError:
            worker.last_words = ""
        finally:
            os.close(complaints)
        del self._jailed[worker]
        worker.ended(_meaning(code))
        self.owner.exited(worker)


def _meaning(code: int) -> int:
    """The exit code; of a signal, its number negated. The worker itself ends with the number of one of them."""
    if code == signal.SIGXCPU:
        return -code
    return _SIGNALLED - code if code > _SIGNALLED else code
