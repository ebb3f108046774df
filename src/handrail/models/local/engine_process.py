"""The model's process as the program sees it: started, fed, listened to, ended.

A thread reads what the process says, so that one process serves every event loop of
the program.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import IO, Any

from msgspec import Struct

from handrail.core.child_process import PLAIN_VARIABLES, kept_variables
from handrail.core.errors import ModelError, ModelUnavailable, RequestRefused, UsageError
from handrail.core.framing import FrameError, FrameSplitter, length_prefixed
from handrail.models.local.weights import EngineFiles
from handrail.models.local.wire import (
    EngineAsk,
    EngineBroken,
    EngineCancel,
    EngineChunk,
    EngineEnded,
    EngineFailed,
    EngineLoading,
    EngineReady,
    EngineStart,
    FromChild,
    Reply,
    ToChild,
    read_frame_from_child,
)

_ROOM = 2 * 2**30
"""Bytes that a model may take beside its weights."""
_PATIENCE = 5.0
"""Seconds for a process to end after its input has; then it is killed."""

Deliver = Callable[[EngineLoading | EngineReady | Reply | ModelError], None]


class EngineProcessEnded(ModelUnavailable):
    """The model's process is gone: killed, out of memory, or crashed."""


class EngineBounds(Struct, frozen=True, kw_only=True):
    threads: int = 1
    """Two on a busy machine wait for each other and are ten times slower than one."""
    slots: int = 2
    """Replies that are written at the same time; further ones wait."""
    context: int = 4096
    """Tokens of one conversation, the reply included."""
    queue: int = 32
    """Requests that may wait; the next is refused."""
    memory_bytes: int | None = None
    """Address space of the process; by default that of the weights and 2 GiB more."""


class EngineProcess:
    """The model's process, from its start to its end."""

    def __init__(self, files: EngineFiles, bounds: EngineBounds) -> None:
        self._folder = tempfile.mkdtemp(prefix="handrail-model-")
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Deliver] = {}
        self._stage: EngineLoading | EngineReady = EngineLoading("starting the model's process")
        self._end: ModelError | None = None
        self._popen = subprocess.Popen(
            [sys.executable, "-P", "-m", "handrail.models.local.child", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
            env=_environment(),
        )
        self._send(_start(files, bounds, self._folder))
        self._listener = threading.Thread(target=self._listen, name="handrail-local", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def over(self) -> bool:
        return self._end is not None or self._popen.poll() is not None

    def ask(self, body: dict[str, Any], deliver: Deliver) -> int:
        """Have a request answered; `deliver` is called from another thread.

        Raises:
            ModelError: The process has ended.
        """
        with self._lock:
            if self._end is not None:
                raise self._end
            number = next(self._numbers)
            self._waiting[number] = deliver
            if isinstance(self._stage, EngineLoading):
                deliver(self._stage)
        self._send(EngineAsk(number, body))
        return number

    def cancel(self, number: int) -> None:
        """Ends a reply that nobody waits for any more."""
        with self._lock:
            unanswered = self._waiting.pop(number, None) is not None
        if unanswered:
            self._send(EngineCancel(number))

    def close(self) -> None:
        """End the process and wait until it is gone."""
        with self._writing, suppress(BrokenPipeError):  # broken: it is gone already
            _pipe(self._popen.stdin).close()
        try:
            self._popen.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._popen.kill()
        if threading.current_thread() is not self._listener:  # a forgotten model may be collected in any thread
            self._listener.join()

    def _send(self, message: ToChild) -> None:
        try:
            data = memoryview(length_prefixed(message))
        except FrameError as error:
            raise RequestRefused(f"the request cannot be given to the local model: {error}") from error
        pipe = _pipe(self._popen.stdin)
        # The listener notices the end of the process, and tells everybody who waits.
        with self._writing, suppress(BrokenPipeError):
            while data and not pipe.closed:
                data = data[pipe.write(data) or 0 :]

    def _listen(self) -> None:
        pipe, frames = _pipe(self._popen.stdout), FrameSplitter()
        try:
            while data := pipe.read(1 << 16):
                for body in frames.feed(data):
                    self._hear(read_frame_from_child(body))
        except FrameError:
            self._popen.kill()
        finally:
            self._bury()

    def _hear(self, message: FromChild) -> None:
        with self._lock:
            match message:
                case EngineLoading() | EngineReady():
                    self._stage = message
                    listeners = list(self._waiting.values())
                case EngineBroken(why=why):
                    self._end = RequestRefused(f"the local model could not be loaded: {why}")
                    listeners = []
                case EngineChunk(number=number):
                    listeners = [self._waiting[number]] if number in self._waiting else []
                case EngineEnded(number=number) | EngineFailed(number=number):
                    waiting = self._waiting.pop(number, None)
                    listeners = [] if waiting is None else [waiting]
        if not isinstance(message, EngineBroken):
            for deliver in listeners:
                deliver(message)

    def _bury(self) -> None:
        code = self._popen.wait()
        _pipe(self._popen.stdout).close()
        with self._writing, suppress(BrokenPipeError):
            _pipe(self._popen.stdin).close()
        shutil.rmtree(self._folder, ignore_errors=True)
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        with self._lock:
            self._end = self._end or EngineProcessEnded(f"the local model's process ended {how}; ask again")
            waiting, self._waiting = list(self._waiting.values()), {}
        for deliver in waiting:
            deliver(self._end)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # both ends were asked for
    return pipe


def _start(files: EngineFiles, bounds: EngineBounds, folder: str) -> EngineStart:
    return EngineStart(
        weights=str(files.weights),
        adapter=None if files.adapter is None else str(files.adapter),
        template=files.template,
        folder=folder,
        threads=bounds.threads,
        slots=bounds.slots,
        context=bounds.context,
        queue=bounds.queue,
        memory_bytes=bounds.memory_bytes or files.weights.stat().st_size + _ROOM,
    )


def _environment() -> dict[str, str]:
    """Enough to start Python and find our code; no keys."""
    return kept_variables(PLAIN_VARIABLES) | {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}


Heard = EngineLoading | EngineReady | dict[str, Any]


class EngineSupervisor:
    """Gives out the running process, and starts another when there is none."""

    def __init__(self, files: EngineFiles, bounds: EngineBounds) -> None:
        self._files = files
        self._bounds = bounds
        self._lock = threading.Lock()
        self._process: EngineProcess | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The id of the process that runs now, if one does."""
        process = self._process
        return None if process is None or process.over else process.pid

    def running(self) -> EngineProcess:
        """Returns the running process, or starts one.

        Raises:
            UsageError: It was closed.
        """
        with self._lock:
            if self._closed:
                raise UsageError("this local model was closed; make another")
            if self._process is None or self._process.over:
                self._process = EngineProcess(self._files, self._bounds)
            return self._process

    def close(self) -> None:
        """End the process, if one runs. It may be called twice."""
        with self._lock:
            self._closed = True
            process, self._process = self._process, None
        if process is not None:
            process.close()


async def engine_replies(supervisor: EngineSupervisor, body: dict[str, Any]) -> AsyncGenerator[Heard, None]:
    """What the model says to one request: stages of its loading, then the chunks of the reply.

    Closing the generator stops the reply. A process that ends before it said anything is
    replaced, once: a killed one may be noticed only when it is asked.

    Raises:
        ModelError: The request was refused, or the process ended.
    """
    said = last = False
    while True:
        try:
            async with aclosing(_replies(supervisor.running(), body)) as messages:
                async for message in messages:
                    said = said or isinstance(message, dict)
                    yield message
            return
        except EngineProcessEnded:
            if said or last:
                raise
            last = True


async def _replies(process: EngineProcess, body: dict[str, Any]) -> AsyncGenerator[Heard, None]:
    loop = asyncio.get_running_loop()
    heard: asyncio.Queue[EngineLoading | EngineReady | Reply | ModelError] = asyncio.Queue()

    def deliver(message: EngineLoading | EngineReady | Reply | ModelError) -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody listens any more
            loop.call_soon_threadsafe(heard.put_nowait, message)

    number = process.ask(body, deliver)
    try:
        while True:
            match await heard.get():
                case EngineLoading() | EngineReady() as stage:
                    yield stage
                case EngineChunk(data=data):
                    yield data
                case EngineEnded():
                    return
                case EngineFailed(kind="busy", why=why):
                    raise ModelUnavailable(f"the local model is busy: {why}; try again later")
                case EngineFailed(why=why):
                    raise RequestRefused(f"the local model refused the request: {why}")
                case ModelError() as error:
                    raise error
    finally:
        process.cancel(number)
