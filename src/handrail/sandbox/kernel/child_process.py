"""The process of an interpreter, and the host's ends of what connects them. It knows nothing of cells."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from handrail.core.child_process import wait_for_exit
from handrail.core.errors import SandboxUnavailable
from handrail.core.timeouts import time_limit
from handrail.sandbox.jail import Jail, lockdown_filter
from handrail.sandbox.jail.seccomp_lock import SOURCE
from handrail.sandbox.kernel.messages import setup
from handrail.sandbox.port import ReplLimits

_FLAGS = ("-P", "-s", "-S", "-B", "-c")
# Not -I: that would have Python ignore the hash seed too. There is nothing else in its environment to ignore.
_ENVIRONMENT = {"LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "MALLOC_ARENA_MAX": "1"}
_PROGRAM = Path(__file__).with_name("program.py")
_GUARD = Path(__file__).with_name("guard.py")
_SECONDS_TO_END = 10.0
_INTERPRETER = 64 * 2**20
"""Bytes that Python takes before it has done anything, and a little more."""


class InterpreterProcess(Protocol):
    """What a jail gives, and what a plain process is made into."""

    def kill(self) -> None:
        """Kill the process and everything that it started."""
        ...

    async def wait(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ChildInterpreter:
    process: InterpreterProcess
    sock: socket.socket
    """Frames, both ways."""
    control: socket.socket
    """The number of a cell interrupts it. The end of this socket ends the interpreter."""
    output: int
    errors: int

    def kill(self) -> None:
        """End the process, and hang up. Whoever waits for a frame does not have to wait for the process."""
        self.process.kill()
        with suppress(OSError):  # it has hung up already
            self.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.sock.close()
        self.control.close()
        os.close(self.output)
        os.close(self.errors)


def start_interpreter(limits: ReplLimits, jail: Jail | None) -> ChildInterpreter:
    """An interpreter that is about to be ready.

    Raises:
        SandboxUnavailable: It could not be started.
    """
    try:
        with ExitStack() as theirs, ExitStack() as undo:
            sock, their_sock = _sockets(theirs, undo)
            control, their_control = _sockets(theirs, undo)
            output, their_output = _pipe(theirs, undo)
            errors, their_errors = _pipe(theirs, undo)
            fds = (their_sock.fileno(), their_control.fileno())
            sock.send(setup(limits.memory_bytes + _INTERPRETER, limits.message_bytes, _lockdown(jail)))
            if jail is None:
                process: InterpreterProcess = _PlainInterpreterProcess(fds, their_output, their_errors)
            else:
                process = _JailedInterpreterProcess(jail, fds, their_output, their_errors)
            undo.pop_all()
            return ChildInterpreter(process, sock, control, output, errors)
    except OSError as error:
        raise SandboxUnavailable(f"no interpreter could be started: {error}") from error


class _PlainInterpreterProcess:
    """A process without a jail, with the guard as its parent."""

    def __init__(self, fds: tuple[int, int], output: int, errors: int) -> None:
        with ExitStack() as theirs, ExitStack() as undo:
            self._watch, watched = _sockets(theirs, undo)
            self._directory = tempfile.mkdtemp(prefix="handrail-repl-")
            undo.callback(shutil.rmtree, self._directory, ignore_errors=True)
            given = (str(watched.fileno()), self._directory, _PROGRAM.read_text("utf-8"), *map(str, fds))
            self._process = subprocess.Popen(
                [sys.executable, *_FLAGS, _GUARD.read_text("utf-8"), *given],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                pass_fds=[watched.fileno(), *fds],
                env={"PATH": os.environ.get("PATH", os.defpath), **_ENVIRONMENT},
                cwd=self._directory,
                start_new_session=True,
            )
            undo.pop_all()

    def kill(self) -> None:
        self._watch.close()

    async def wait(self) -> int:
        try:
            async with time_limit(_SECONDS_TO_END):
                await wait_for_exit(self._process)
        except TimeoutError:
            self._process.kill()
            await wait_for_exit(self._process)
        self._watch.close()
        if self._has_left_files():
            await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)
        return _code(self._process.wait())

    def _has_left_files(self) -> bool:
        """The guard removes them, unless it was killed."""
        return os.path.isdir(self._directory)


class _JailedInterpreterProcess:
    """A process in a jail, where it is the first and takes everything with it."""

    def __init__(self, jail: Jail, fds: tuple[int, int], output: int, errors: int) -> None:
        argv = [jail.python, *_FLAGS, _PROGRAM.read_text("utf-8"), *map(str, fds)]
        self._jailed = jail.spawn(argv, env=_ENVIRONMENT, pass_fds=fds, stdout=output, stderr=errors)

    def kill(self) -> None:
        self._jailed.kill()

    async def wait(self) -> int:
        return _code(await self._jailed.wait())


def _lockdown(jail: Jail | None) -> str:
    """What the interpreter does to itself before it takes a cell."""
    if jail is None:
        return ""
    return f"{SOURCE}\nlock(bytes.fromhex({lockdown_filter().hex()!r}), {jail.limits.processes})\n"


def _code(status: int) -> int:
    """A shell's way to say it of a signal, as Python's."""
    return status if status <= 128 else 128 - status


def _sockets(theirs: ExitStack, undo: ExitStack) -> tuple[socket.socket, socket.socket]:
    ours, other = socket.socketpair()
    undo.callback(ours.close)
    theirs.callback(other.close)
    ours.setblocking(False)
    return ours, other


def _pipe(theirs: ExitStack, undo: ExitStack) -> tuple[int, int]:
    ours, other = os.pipe()
    undo.callback(os.close, ours)
    theirs.callback(os.close, other)
    os.set_blocking(ours, False)
    return ours, other
