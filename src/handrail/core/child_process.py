"""Programs that we start: what they get of our environment, and their end together with all that they started.

Each runs in a session of its own, so that one signal reaches everything that it has started and Ctrl-C in a terminal
reaches none of it. Uses only the standard library.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from handrail.core.tasks import run_to_completion
from handrail.core.timeouts import time_limit


class ProgramProtocol(asyncio.SubprocessProtocol):
    """Knows whether a program has ended, and whether its output has: what it has started may hold that open."""

    def __init__(self) -> None:
        self.open_pipes: set[int] = {0, 1, 2}
        self.exited: asyncio.Event = asyncio.Event()
        self.hung_up: asyncio.Event = asyncio.Event()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self.open_pipes.discard(fd)
        if not self.open_pipes & {1, 2}:
            self.hung_up.set()

    def process_exited(self) -> None:
        self.exited.set()


P = TypeVar("P", bound=ProgramProtocol)


PASSED_ON = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""The environment variables that every program gets. No others, because they may hold API keys."""
PLAIN_VARIABLES = (*PASSED_ON, "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""The environment variables that our own programs get, which must also find the libraries of this Python."""


def kept_variables(names: Iterable[str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment variables of these names and no others, because the rest may hold API keys."""
    # A value that begins so is a function of a shell, which some shells run.
    return {name: environ[name] for name in names if name in environ and not environ[name].startswith("()")}


def signal_group(pid: int, number: int) -> None:
    """Signal a process that leads its group, and all that it started. One that has ended is left alone."""
    with suppress(ProcessLookupError, PermissionError):  # nobody is left in it; macOS says so with EPERM
        os.killpg(pid, number)


def kill_group(process: subprocess.Popen[bytes] | asyncio.subprocess.Process) -> None:
    """Kill a process that leads its group, and all that it started; the process alone where there are no groups."""
    if hasattr(os, "killpg"):
        signal_group(process.pid, signal.SIGKILL)
    else:
        with suppress(ProcessLookupError):
            process.kill()


def kill_and_reap(process: subprocess.Popen[bytes]) -> None:
    """End a process with its group, unless it has ended, and wait for it."""
    if process.poll() is None:
        kill_group(process)
    process.wait()


async def wait_for_exit(process: subprocess.Popen[bytes]) -> None:
    """Return when a process has ended; it is not reaped. Needs no thread where the system can watch a process."""
    if process.returncode is not None:
        return
    try:
        fd = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        await asyncio.to_thread(process.wait)
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(fd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)


async def occurs_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, at most so many seconds; whether it has come."""
    with suppress(TimeoutError):
        async with time_limit(seconds):
            await event.wait()
    return event.is_set()


async def start_program(
    protocol: Callable[[], P], argv: Sequence[str], **options: Any
) -> tuple[asyncio.SubprocessTransport, P]:
    """Start a program in a session of its own. `end_program` ends it.

    Cancelled halfway, asyncio would end only the program and not its group. So a cancelled caller waits until it has
    started, and until all of it has ended again.

    Raises:
        OSError: It could not be started.
    """
    loop = asyncio.get_running_loop()
    started = loop.create_task(loop.subprocess_exec(protocol, *argv, start_new_session=True, **options))
    try:
        return await asyncio.shield(started)
    except asyncio.CancelledError:
        await run_to_completion(_end_once_started(started), longest=None)
        raise


async def _end_once_started(started: asyncio.Task[tuple[asyncio.SubprocessTransport, Any]]) -> None:
    await asyncio.wait([started])
    if started.exception() is None:
        await end_program(*started.result(), patience=0, grace=0, flush=0)


async def end_program(
    transport: asyncio.SubprocessTransport, program: ProgramProtocol, *, patience: float, grace: float, flush: float
) -> None:
    """Wait `patience` seconds for a program to end, then SIGTERM, then after `grace` seconds SIGKILL for its group.

    What it has written is taken in for `flush` seconds more: a child that left the group may hold the pipes open for
    as long as it likes.
    """
    group = transport.get_pid()
    try:
        if not await occurs_within(program.exited, patience):
            signal_group(group, signal.SIGTERM)
            await occurs_within(program.exited, grace)
    finally:
        signal_group(group, signal.SIGKILL)
    await program.exited.wait()
    await occurs_within(program.hung_up, flush)
    transport.close()


async def ask_program(argv: Sequence[str], data: bytes, seconds: float, **options: Any) -> tuple[int, bytes]:
    """Give a program its input; its exit code and its output. However this ends, so have the program and its group.
    It gets no variables that may hold keys: what it reads may be a stranger's.

    Raises:
        OSError: It could not be started.
        TimeoutError: It took longer than so many seconds.
    """
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    env = kept_variables(PLAIN_VARIABLES)
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=pipe, stdout=pipe, stderr=nothing, start_new_session=True, env=env, **options
    )
    try:
        async with time_limit(seconds):
            output, _ = await process.communicate(data)
    finally:
        if process.returncode is None:
            kill_group(process)
            await process.wait()
    return process.returncode or 0, output
