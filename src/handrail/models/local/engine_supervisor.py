"""Keeps a model's process at hand, and has requests answered by it.

A process that ended is replaced at the next request; a request that it was answering
fails, and says so.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from handrail.core.errors import ModelError, ModelUnavailable, RequestRefused, UsageError
from handrail.models.local.engine_process import EngineBounds, EngineProcess, EngineProcessEnded
from handrail.models.local.weights import EngineFiles
from handrail.models.local.wire import EngineChunk, EngineEnded, EngineFailed, EngineLoading, EngineReady, Reply

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
        """Of the process that runs now, if one does."""
        process = self._process
        return None if process is None or process.over else process.pid

    def running(self) -> EngineProcess:
        """
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
                    raise ModelUnavailable(f"the local model is busy: {why}; ask again later")
                case EngineFailed(why=why):
                    raise RequestRefused(f"the local model refused the request: {why}")
                case ModelError() as error:
                    raise error
    finally:
        process.cancel(number)
