"""The host's end of one worker: a job goes out, progress and an answer come back. What is no answer ends it.

Everything here runs in callbacks of one event loop. Who started the worker, and how
it is ended, is its owner's business.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from handrail.core.framing import FRAME_LIMIT, FrameError, FrameSplitter
from handrail.execute.isolation.worker_frames import CHUNK, Answer, JobProgress, read_reply

Report = Callable[[float | None, float | None, str], None]


_MOST_REPORTS = 10_000
_LONGEST_STAGE = 500
"""What a guarded worker may say of its progress in one call, in reports and in characters of one. More is dropped."""


class WorkerLost(Exception):
    """The worker's end of the socket has closed."""


class WorkerConnection:
    """One worker process: send it a job, get its answer."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        limit: int = FRAME_LIMIT,
        on_close: Callable[[WorkerConnection], None] | None = None,
    ) -> None:
        """With `on_close` it is guarded: whoever is in there may mean harm. It is called when nothing more is taken."""
        self.pid = 0
        self.asked = 0
        """How many jobs it was sent."""
        self.last_words = ""
        """What it complained of when it ended before it was ready."""
        self.gone: asyncio.Future[int | None] = loop.create_future()
        """Its exit code; of a signal, the number negated; None if nobody can say any more."""
        self._loop = loop
        self._sock = sock
        self._on_close = on_close
        self._reports = 0
        self._frames = FrameSplitter(limit)
        self._unsent = memoryview(b"")
        self._number = 0
        self._answer: asyncio.Future[Answer] | None = None
        self._report: Report | None = None
        sock.setblocking(False)
        loop.add_reader(sock, self._read)

    def is_there(self) -> bool:
        """Whether it has not hung up, as far as the kernel knows by now."""
        self._read()
        return self._sock.fileno() >= 0

    async def ask(self, number: int, job: bytes, report: Report) -> Answer:
        """Send a job, and wait for its answer.

        Raises:
            WorkerLost: It ended without an answer.
            FrameError: It sent something that is no answer.
        """
        self.asked += 1
        self._reports = 0
        self._number, self._report, self._unsent = number, report, memoryview(job)
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._answer = answer
        self._write()
        try:
            return await answer
        finally:
            self._answer = self._report = None

    def ended(self, code: int | None) -> None:
        """Its parent has reaped it: take what it still had to say, then let go."""
        while self._read():
            continue
        self.close()
        if not self.gone.done():
            self.gone.set_result(code)

    def close(self, error: Exception | None = None) -> None:
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock)
            self._loop.remove_writer(self._sock)
            self._sock.close()
            if self._on_close is not None:
                self._on_close(self)
        self._fail(error or WorkerLost())

    def _read(self) -> bool:
        """Take in what has come; False when there is no more for now."""
        if self._sock.fileno() < 0:
            return False
        try:
            data = self._sock.recv(CHUNK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            self.close()
            return False
        try:
            for body in self._frames.feed(data):
                self._take(read_reply(body))
        except FrameError as error:
            self.close(error)
        return True

    def _write(self) -> None:
        try:
            self._unsent = self._unsent[self._sock.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            self._loop.add_writer(self._sock, self._write)
            return
        except OSError as error:
            self.close(WorkerLost(str(error)))
            return
        if self._unsent:
            self._loop.add_writer(self._sock, self._write)
        else:
            self._loop.remove_writer(self._sock)

    def _take(self, reply: JobProgress | Answer) -> None:
        if self._answer is None and self._on_close is not None:
            raise FrameError("it spoke unasked")  # who could do so for ever would keep the host busy
        if self._answer is None or self._answer.done() or reply.number != self._number:
            return  # a thread that an earlier call left behind still speaks
        if isinstance(reply, JobProgress):
            self._progress(reply)
        else:
            self._answer.set_result(reply)

    def _progress(self, told: JobProgress) -> None:
        self._reports += 1
        guarded = self._on_close is not None
        if self._report is None or (guarded and self._reports > _MOST_REPORTS):
            return
        try:
            self._report(told.current, told.total, told.stage[:_LONGEST_STAGE] if guarded else told.stage)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
