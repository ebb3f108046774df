"""Tools for the tests of the sandbox: some are honest, some do what they can. A jail imports this file many times."""

from __future__ import annotations

import asyncio
import ctypes
import http.client
import json
import mmap
import os
import re
import resource
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from handrail.core.calls import Attachment, Output
from handrail.core.framing import length_prefixed
from handrail.core.invocation import Invocation
from handrail.execute.isolation.worker_frames import JobDone, JobProgress
from handrail.tools.sandbox_access import SandboxAccess
from handrail.tools.tool import tool

IN: Final = "sandbox"
KEPT: list[str] = []
MADE: list[int] = []


# Honest.


@tool(isolation=IN)
def words(text: str) -> dict[str, Any]:
    """Count words in a database, with a pattern and a file of its own."""
    with tempfile.TemporaryFile("w+") as file:
        json.dump(re.findall(r"\w+", text), file)
        file.seek(0)
        found = json.load(file)
    with sqlite3.connect(":memory:") as base:
        base.execute("create table words (word text)")
        base.executemany("insert into words values (?)", [(word,) for word in found])
        rows = base.execute("select word, count(*) from words group by word order by word").fetchall()
    base.close()
    return dict(rows)


@tool(isolation=IN)
async def gather(n: int) -> list[int]:
    async def one(number: int) -> int:
        return await asyncio.to_thread(lambda: number * number)

    return list(await asyncio.gather(*map(one, range(n))))


@tool(isolation=IN)
def steps(n: int, invocation: Invocation) -> str:
    for number in range(n):
        invocation.progress(number, n, f"step {number}")
    return "done"


@tool(isolation=IN)
def picture() -> Output:
    return Output("drawn", ("in two colours",), (Attachment("a.png", "image/png", b"\x89PNG"),))


@tool(isolation=IN)
def read(path: str) -> str:
    return Path(path).read_text()


@tool(isolation=IN)
def remember(word: str) -> list[str]:
    KEPT.append(word)
    with open("/tmp/kept", "a") as file:
        file.write(word)
    return KEPT


@dataclass
class Coin:
    worth: int

    def __post_init__(self) -> None:
        MADE.append(os.getpid())


@tool(isolation=IN)
def worth(coin: Coin) -> int:
    return coin.worth


@tool(isolation=IN)
def who(invocation: Invocation) -> dict[str, Any]:
    return {"token": invocation.context.token, "principal": invocation.context.principal.id, "key": invocation.id}


@tool(isolation=IN)
async def call_another(invocation: Invocation) -> Any:
    return await invocation.invoke("words", {"text": "a"})


# Not.


@tool(isolation=IN)
def python(code: str) -> Any:
    """Whatever the code leaves as `answer`; what it raises is the answer of the call."""
    scope: dict[str, Any] = {"answer": None}
    exec(code, scope)
    return scope["answer"]


@tool(isolation=IN)
def environment() -> str:
    """Everything that can be found of any environment."""
    found = json.dumps(dict(os.environ))
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("environ", "cmdline"):
            try:
                found += Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace")
            except OSError:
                continue
    return found


@tool(isolation=IN)
def connect(host: str, port: int) -> str:
    """Reach a server by every door that Python has."""
    said = []
    for way in (
        lambda: socket.create_connection((host, port), 1),
        lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (host, port)),
        lambda: socket.socket(socket.AF_UNIX).connect("\0handrail-test"),
        lambda: http.client.HTTPConnection(host, port, timeout=1).request("GET", "/"),
        lambda: socket.getaddrinfo("localhost", port),
    ):
        try:
            way()
            said.append("reached")
        except OSError as error:
            said.append(type(error).__name__)
    return " ".join(said)


@tool(isolation=IN)
def start(program: str) -> str:
    said = []
    for way in (os.fork, lambda: subprocess.run([program]), lambda: os.execv(program, [program])):
        try:
            way()
            said.append("started")
        except OSError as error:
            said.append(type(error).__name__)
    return " ".join(said)


@tool(isolation=IN)
def write(path: str) -> str:
    Path(path).write_text("was here")
    return "written"


@tool(isolation=IN, sandbox=SandboxAccess(memory_bytes=300 * 2**20))
def take(mebibytes: int) -> int:
    return len(bytearray(mebibytes * 2**20))


@tool(isolation=IN, sandbox=SandboxAccess(memory_bytes=64 * 2**20, disk_bytes=2**20, cpu_seconds=1))
def hoard(what: str) -> Any:
    match what:
        case "memory":
            return len(bytearray(200 * 2**20))
        case "more memory":
            _, hard = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
            return len(bytearray(100 * 2**20))
        case "map":
            return len(mmap.mmap(-1, 200 * 2**20))
        case "disk":
            return Path("/tmp/large").write_bytes(bytes(2**21))
        case "files":
            return [open("/dev/null") for _ in range(10_000)]
        case "threads":
            for _ in range(10_000):
                threading.Thread(target=threading.Event().wait, daemon=True).start()
            return "started"
    while True:  # the processor, in C code that never lets go of the interpreter
        re.match(r"(a|a)*b", "a" * 200)


@tool(isolation=IN, timeout=250)
def flood(where: str, invocation: Invocation) -> str:
    """Say far too much, by every channel that leads out: more than the host may keep."""
    channel = socket.socket(fileno=os.dup(_channel()))
    match where:
        case "stdout":
            for _ in range(1_000):
                os.write(1, b"\x1b[2J" * 2**14)
                os.write(2, b"\x1b[2J" * 2**14)
        case "progress":
            for number in range(20_000):
                invocation.progress(number, None, "x" * 1_000)
        case "frames":
            for _ in range(2_500):
                channel.sendall(length_prefixed(JobProgress(0, None, None, "x" * 2**16)))
        case "result":
            return "x" * 2**26
        case "forged":
            channel.sendall(length_prefixed(JobDone(10**6, Output("forged"))))
        case "huge":
            channel.sendall((2**31).to_bytes(4, "big") + b"x" * 2**16)
            time.sleep(60)
    channel.close()
    return "flooded"


@tool(isolation=IN)
def speak_later() -> str:
    """Answer, and then go on talking when nobody has asked."""
    channel = socket.socket(fileno=os.dup(_channel()))

    def talk() -> None:
        while True:
            channel.sendall(length_prefixed(JobProgress(0, None, None, "still here")))

    threading.Timer(0.1, talk).start()
    return "for now"


@tool(isolation=IN)
def hang(how: str, invocation: Invocation) -> None:
    invocation.progress(stage="running")
    if how == "interpreter":
        re.match(r"(a|a)*b", "a" * 200)
    threading.Event().wait()


@tool(isolation=IN)
def crash() -> None:
    ctypes.string_at(0)


@tool(isolation=IN)
def plant(link: str, target: str) -> str:
    os.symlink(target, link)
    return Path(link).read_text()


class Loaded:
    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (3,)


@tool(isolation=IN)
def loaded() -> Any:
    return {"value": Loaded()}


def _channel() -> int:
    """The socket that leads to the host: a tool that wants to can find it."""
    for fd in sorted(map(int, os.listdir("/proc/self/fd"))):  # its number is that which it had in the host
        try:
            if fd > 2 and os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"):
                return fd
        except OSError:
            continue
    raise AssertionError(f"there is no socket in {os.listdir('/proc/self/fd')}, {sys.version}")
