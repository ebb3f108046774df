"""Tools for the tests of worker processes. Workers import this file many times over: it stays light."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from handrail.core.calls import Attachment, Output
from handrail.core.errors import Forbidden, ToolError
from handrail.core.invocation import Invocation
from handrail.tools.tool import tool

IMPORTED_IN = os.getpid()
CALLS: list[int] = []


@dataclass
class Point:
    x: int
    y: int = 0


@tool
def add(a: int, b: int = 1) -> int:
    return a + b


@tool
async def add_later(a: int, b: int) -> int:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, a + b)
    return await future


@tool
def norm(point: Point) -> int:
    assert isinstance(point, Point)
    return point.x**2 + point.y**2


@tool
def whereabouts() -> dict[str, Any]:
    CALLS.append(1)
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "imported_in": IMPORTED_IN,
        "calls": len(CALLS),
        "cwd": os.getcwd(),
    }


@tool
def count_to(n: int, invocation: Invocation) -> str:
    for number in range(n):
        invocation.progress(number, n, f"step {number}")
    return "counted"


def describe_call(invocation: Invocation) -> dict[str, Any]:
    return {
        "id": invocation.id,
        "name": invocation.tool_name,
        "input": invocation.input,
        "run": invocation.context.run,
        "principal": invocation.context.principal.id,
        "may": invocation.context.allows("other"),
        "token": invocation.context.token,
        "depth": invocation.context.depth,
        "key": invocation.idempotency_key,
        "auxdata": dict(invocation.auxdata),
        "namespace": dict(invocation.namespace),
    }


def with_context(context: Invocation, arguments: dict[str, Any]) -> list[Any]:
    return [context.id, arguments]


def by_name(name: str, args: dict[str, Any]) -> list[Any]:
    return [name, args]


@tool
async def call_another(invocation: Invocation) -> Any:
    return await invocation.invoke("add", {"a": 1})


@tool
def with_attachment() -> Output:
    return Output({"n": 10**30}, ("careful",), (Attachment("a.bin", "application/octet-stream", b"\x00\xff"),))


@tool
def raise_that(kind: str) -> None:
    kinds: dict[str, BaseException] = {
        "RuntimeError": RuntimeError("kaput"),
        "SystemExit": SystemExit(3),
        "KeyboardInterrupt": KeyboardInterrupt(),
        "CancelledError": asyncio.CancelledError(),
        "GeneratorExit": GeneratorExit(),
        "ToolError": ToolError("NOT_FOUND", "no such city"),
        "Forbidden": Forbidden("not for you"),
    }
    raise kinds[kind]


@tool
async def raise_that_later(kind: str) -> None:
    raise_that(kind)


@tool
def recurse() -> None:
    recurse()


@tool
def leave(code: int) -> None:
    os._exit(code)


@tool
def die_by(number: int) -> None:
    os.kill(os.getpid(), number)


@tool
def segfault() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.string_at(0)


@tool
def allocate(mebibytes: int) -> int:
    return len(bytearray(mebibytes * 2**20))


@tool
def burn(seconds: float | None = None) -> str:
    end = None if seconds is None else time.process_time() + seconds
    while end is None or time.process_time() < end:
        pass
    return "burnt"


def _say(path: str) -> None:
    """Tell the test, at the other end of this pipe, that the tool is running, and who it and its parent are."""
    with open(path, "w") as pipe:
        pipe.write(f"{os.getpid()} {os.getppid()}\n")


def _leave(trace: str) -> None:
    with open(trace, "w") as file:
        file.write("cleaned up")


@tool
def wait_for_ever(path: str | None = None) -> None:
    if path is not None:
        _say(path)
    threading.Event().wait()


@tool
def hold_the_interpreter(path: str) -> None:
    """Stay in C code that neither lets another thread run nor looks at signals."""
    _say(path)
    re.match(r"(a|a)*b", "a" * 200)


@tool
def ignore_sigterm(path: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    wait_for_ever(path)


@tool
def clean_up_when_stopped(path: str, trace: str) -> None:
    try:
        wait_for_ever(path)
    finally:
        _leave(trace)


@tool
async def clean_up_later(path: str, trace: str) -> None:
    try:
        _say(path)
        await asyncio.Event().wait()
    finally:
        _leave(trace)


@tool
def with_grandchild(path: str) -> None:
    """Start a process that ignores SIGTERM and would outlive us."""
    code = (
        "import os, signal, sys, threading; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print(os.getpid(), os.getppid(), file=open(sys.argv[1], 'w')); threading.Event().wait()"
    )
    subprocess.run([sys.executable, "-c", code, path])


@tool
def fork_and_return() -> str:
    os.fork()
    return "one of two"


@tool
def close_everything() -> None:
    os.closerange(3, 256)


@tool
def write_garbage(text: str) -> None:
    for fd in range(3, 64):
        try:
            os.write(fd, text.encode())
        except OSError:
            continue
    threading.Event().wait()


@tool
def speak() -> str:
    sys.stdout.write("to stdout from the tool\n")
    os.write(1, b"straight to fd 1\n")
    return "spoken"


@tool
def long_text(length: int) -> str:
    return "x" * length


@tool
def echo(text: str) -> str:
    return text
