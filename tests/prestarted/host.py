"""The process off which programs are forked. It ends when its standard input does."""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_KEPT: list[Any] = []
"""What must live as long as the process, as the streams that it had before."""


def serve(address: str) -> Callable[[], None] | None:
    """Forks a child for each client. In a child: what it has to do; in the host: None, when it is to end."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    woken, wakes = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    waiting: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector:
        for each in (0, listener, woken):
            selector.register(each, selectors.EVENT_READ)
        os.write(1, b"ready\n")
        while True:
            for key, _ in selector.select():
                if key.fileobj == 0:
                    for pid in waiting:
                        with suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                    return None
                if key.fileobj is listener:
                    client, _ = listener.accept()
                    asked, streams = _read(client)
                    _import(asked["imports"])
                    pid = os.fork()
                    if pid == 0:
                        signal.set_wakeup_fd(-1)
                        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP):  # nohup ignores the last
                            signal.signal(number, signal.SIG_DFL)
                        signal.signal(signal.SIGINT, signal.default_int_handler)
                        for closed in (listener, client, *waiting.values()):
                            closed.close()
                        os.close(woken)
                        os.close(wakes)
                        return lambda: _become(asked, streams)
                    for stream in streams:
                        os.close(stream)
                    with suppress(OSError):  # who is gone already is seen to be, as any other later
                        client.sendall(b"%d\n" % pid)
                    waiting[pid] = client
                    selector.register(client, selectors.EVENT_READ, pid)
                elif key.fileobj == woken:
                    with suppress(BlockingIOError):
                        os.read(woken, 1024)
                elif key.data in waiting:  # nothing but its end comes from a client
                    with suppress(ProcessLookupError):
                        os.kill(key.data, signal.SIGKILL)
                    selector.unregister(key.fileobj)
            for pid in list(waiting):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    client = waiting.pop(pid)
                    with suppress(KeyError):
                        selector.unregister(client)
                    with suppress(OSError):
                        client.sendall(b"%d\n" % status)
                    client.close()


def _read(client: socket.socket) -> tuple[dict[str, Any], list[int]]:
    head, streams, _, _ = socket.recv_fds(client, 4, 3)
    left = int.from_bytes(head, "big")
    body = b""
    while len(body) < left:
        body += client.recv(left - len(body))
    return json.loads(body), streams


def _become(asked: dict[str, Any], streams: list[int]) -> None:
    """Runs as `python` does with these arguments."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    _KEPT.extend((sys.stdin, sys.stdout, sys.stderr))
    sys.stdin = sys.__stdin__ = os.fdopen(0, "r", encoding="utf-8", closefd=False)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding="utf-8", closefd=False)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # type: ignore[misc]
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    first, *rest = asked["arguments"]
    if first == "-W":
        warnings.simplefilter(rest[0])
        first, *rest = rest[1:]
    if first == "-m":
        sys.argv[:] = rest
        sys.path[0] = asked["folder"]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = [first, *rest]
        sys.path[0] = os.path.dirname(os.path.abspath(first))
        runpy.run_path(first, run_name="__main__")


def _import(modules: list[str]) -> None:
    if new := [each for each in modules if each not in sys.modules]:
        for each in new:
            importlib.import_module(each)
        gc.freeze()


def main() -> None:
    address, *modules = sys.argv[1:]
    _import(modules)
    if (job := serve(address)) is not None:
        job()


if __name__ == "__main__":
    main()
