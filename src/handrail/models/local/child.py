"""The model's process: `python -m handrail.models.local.child`, frames on its standard input and output.

The main thread only reads, so that it always hears of a cancel and of its parent's
end. One thread loads the model and then works; the others work. It has no keys in its
environment, a bound on its memory, and no open port: the engine insists on a
listener, so it gets a socket in a private folder, which is removed once it listens.
"""

from __future__ import annotations

import os
import queue
import resource
import select
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from handrail.core.framing import FrameSplitter, length_prefixed
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
    read_frame_to_child,
)

_PARENT_CHECK = 1.0
"""Seconds between looks at who our parent is. The end of the input says the same at once, unless somebody else in
the parent's family still holds the other end of the pipe."""
_BATCH = 128
"""Tokens of a prompt that are read at once. A cancel is heard in between."""


class EngineWork:
    """The engine and those who wait for it."""

    def __init__(self, start: EngineStart, out: int) -> None:
        self._start = start
        self._out = out
        self._writing = threading.Lock()
        self._asks: queue.Queue[EngineAsk] = queue.Queue(start.queue)
        self._cancelled: set[int] = set()
        self._engine: Any = None

    def begin(self) -> None:
        threading.Thread(target=self._load, daemon=True).start()

    def end(self) -> None:
        """Leave nothing behind. Threads may be inside the engine, which does not expect to be torn down under them."""
        shutil.rmtree(self._start.folder, ignore_errors=True)
        os._exit(0)

    def take(self, ask: EngineAsk) -> None:
        try:
            self._asks.put_nowait(ask)
        except queue.Full:
            self._send(EngineFailed(ask.number, "busy", f"{self._start.queue} requests are waiting already"))

    def cancel(self, number: int) -> None:
        self._cancelled.add(number)

    def _load(self) -> None:
        try:
            self._send(EngineLoading("loading the engine"))
            import xllamacpp

            self._send(EngineLoading(f"loading the weights ({os.path.getsize(self._start.weights) >> 20} MB)"))
            self._engine = xllamacpp.Server(_parameters(xllamacpp, self._start))
        except Exception as error:
            self._send(EngineBroken(f"{type(error).__name__}: {error}"))
            os._exit(1)
        finally:
            shutil.rmtree(self._start.folder, ignore_errors=True)
        self._send(EngineReady())
        for _ in range(self._start.slots - 1):
            threading.Thread(target=self._serve, daemon=True).start()
        self._serve()

    def _serve(self) -> None:
        while True:
            ask = self._asks.get()
            self._send(self._answer(ask))
            self._cancelled.discard(ask.number)

    def _answer(self, ask: EngineAsk) -> EngineEnded | EngineFailed:
        def heard(data: dict[str, Any]) -> bool:
            if ask.number in self._cancelled:
                return True
            if "prompt_progress" not in data:
                self._send(EngineChunk(ask.number, data))
            return False

        if ask.number in self._cancelled:
            return EngineEnded(ask.number)
        try:
            # The progress of the prompt is asked for because a cancel can be obeyed only when something is heard.
            self._engine.handle_chat_completions({**ask.body, "stream": True, "return_progress": True}, heard)
        except Exception as error:
            return EngineFailed(ask.number, "refused", str(error))
        return EngineEnded(ask.number)

    def _send(self, message: FromChild) -> None:
        data = memoryview(length_prefixed(message))
        with self._writing:
            while data:
                try:
                    data = data[os.write(self._out, data) :]
                except BrokenPipeError:
                    os._exit(0)


def _parameters(engine: Any, start: EngineStart) -> Any:
    wanted = engine.CommonParams()
    wanted.model.path = start.weights
    wanted.n_parallel = start.slots
    wanted.n_ctx = start.context * start.slots
    wanted.n_batch = wanted.n_ubatch = _BATCH
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = start.threads
    wanted.cache_ram_mib = 0  # finished prompts would be kept, up to 8 GB of them
    wanted.use_jinja = True
    wanted.verbosity = -1
    wanted.offline = True
    wanted.hostnames = [os.path.join(start.folder, "model.sock")]  # the ending makes it a unix socket
    if start.template is not None:
        wanted.chat_template = start.template
    if start.adapter is not None:
        wanted.lora_adapters = [engine.CommonAdapterLoraInfo(start.adapter, 1.0)]
    return wanted


def _bodies(parent: int) -> Iterator[bytes]:
    """The frames on the standard input, until it ends or the parent is gone."""
    frames = FrameSplitter()
    while os.getppid() == parent:
        if not select.select([0], [], [], _PARENT_CHECK)[0]:
            continue
        data = os.read(0, 1 << 16)
        if not data:
            return
        yield from frames.feed(data)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What the engine prints must not get between the frames.
    out = os.dup(1)
    os.dup2(2, 1)
    work: EngineWork | None = None
    for body in _bodies(int(sys.argv[1])):
        match read_frame_to_child(body):
            case EngineStart() as start:
                resource.setrlimit(resource.RLIMIT_AS, (start.memory_bytes, start.memory_bytes))
                work = EngineWork(start, out)
                work.begin()
            case EngineAsk() as ask if work is not None:
                work.take(ask)
            case EngineCancel(number=number) if work is not None:
                work.cancel(number)
    if work is not None:
        work.end()


if __name__ == "__main__":
    main()
