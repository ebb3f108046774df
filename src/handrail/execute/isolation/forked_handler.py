"""A function in a fork of this process, where it can be killed: for functions that no worker could import by name.

A fork has everything that the function refers to, closures included, so any function can run there. What it changes
in memory stays there; its result crosses as JSON. A program with many threads may have one of them in the middle of
something when it forks, which the function then finds half done: tools that run often belong into
`isolation="process"`, whose workers are forked from a clean process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from handrail.core.child_process import signal_group
from handrail.core.errors import UsageError
from handrail.core.framing import FrameError, FrameSplitter
from handrail.execute.isolation.worker import (
    answer_job,
    encode_answer,
    end_with_host,
    flush_standard_streams,
    limit_memory,
)
from handrail.execute.isolation.worker_frames import (
    CHUNK,
    Answer,
    JobProgress,
    exit_cause,
    output_of,
    read_reply,
    worker_lost_error,
)
from handrail.execute.isolation.worker_limits import ProcessLimits
from handrail.execute.output import normalise_output, resolve_handler_value
from handrail.tools.tool import Tool

_forking = threading.Lock()
"""Held while forking, so that a child does not keep the socket of another one open."""
_SECONDS_TO_DIE = 0.25


def with_forked_handler(tool: Tool) -> Tool:
    """The same tool with its handler in a fork of this process, which ends when its time is up.

    Raises:
        UsageError: This system cannot fork.
    """
    if not hasattr(os, "fork"):
        raise UsageError("this system cannot fork a process; give the function to a BlockingExecutor instead")
    return tool.changed(handler=_ForkedHandler(tool), isolation="loop")


class _ForkedHandler:
    """An async handler: it forks, waits for the answer, and kills what it has forked."""

    def __init__(self, tool: Tool, limits: ProcessLimits = ProcessLimits()) -> None:
        self._tool = tool
        self._limits = limits

    async def __call__(self, *given: Any, **named: Any) -> Any:
        sock, pid = self._fork(lambda: resolve_handler_value(self._tool.handler(*given, **named)))
        code: int | None = None
        try:
            with sock:
                answer = await _received(sock, self._limits.frame_bytes)
            if answer is None:
                code = await _exit_code(pid)
                raise worker_lost_error(self._tool.name, exit_cause(code, None))
        except FrameError as error:
            raise worker_lost_error(self._tool.name, f"answered with something unreadable ({error})") from error
        finally:
            if code is None:
                _kill(pid)
        return output_of(answer, self._tool.name, self._limits.memory_bytes)

    def _fork(self, function: Callable[[], Any]) -> tuple[socket.socket, int]:
        with _forking:
            ours, theirs = socket.socketpair()
            flush_standard_streams()  # or what is buffered would be written twice
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads: see above
                pid = os.fork()
            if pid == 0:
                ours.close()
                self._serve(theirs, function)
            theirs.close()
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # here and there: whoever comes first
        ours.setblocking(False)
        return ours, pid

    def _serve(self, sock: socket.socket, function: Callable[[], Any]) -> NoReturn:
        """Runs in the fork: calls the function, sends the result, and leaves without any clean-up, which is the
        host's."""
        pid = os.getpid()
        try:
            os.setpgid(0, 0)
            end_with_host(sock)
            if self._limits.memory_bytes is not None:
                limit_memory(self._limits.memory_bytes)
            answer = answer_job(0, lambda: normalise_output(function(), self._tool.style or "arguments"))
            flush_standard_streams()
            if os.getpid() == pid:  # a copy that the function has forked has no say
                sock.sendall(encode_answer(answer, self._limits.frame_bytes))
        finally:
            os._exit(0)


async def _received(sock: socket.socket, limit: int) -> Answer | None:
    """The answer, or None if the fork ended without one."""
    frames, loop = FrameSplitter(limit), asyncio.get_running_loop()
    while data := await loop.sock_recv(sock, CHUNK):
        for body in frames.feed(data):
            reply = read_reply(body)
            if isinstance(reply, JobProgress):
                raise FrameError("progress, where an answer was due")
            return reply
    return None


async def _exit_code(pid: int) -> int | None:
    """Waits briefly for a fork to exit; its exit code, or None if it has not exited."""
    for _ in range(25):
        if (code := _ended(pid)) is not None:
            return code
        await asyncio.sleep(_SECONDS_TO_DIE / 25)
    return None


def _ended(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _kill(pid: int) -> None:
    """End the fork and everything that it has started. Nobody waits for it: it runs no code from here on."""
    signal_group(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it may not lead its group yet
        os.kill(pid, signal.SIGKILL)
    threading.Thread(target=_reap, args=(pid,), name="handrail-reap", daemon=True).start()


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
