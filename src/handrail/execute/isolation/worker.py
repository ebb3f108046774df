"""A worker process: runs one job at a time for the host, and ends with its whole group when the host goes.

It imports a tool's module when the first job names it, and keeps it. It does not
defend against the tool: a tool here has the rights of its user.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from handrail.core.calls import Output, ToolCall, ToolResult
from handrail.core.errors import INVALID_OUTPUT, InvalidArguments, ToolError, describe_exception
from handrail.core.framing import FrameError, FrameSplitter, length_prefixed
from handrail.core.invocation import Invocation
from handrail.execute.isolation.handler_target import HandlerTarget, import_handler
from handrail.execute.isolation.worker_frames import (
    CHUNK,
    Answer,
    JobCrashed,
    JobDone,
    JobFailed,
    JobProgress,
    WorkerJob,
    read_job,
)
from handrail.execute.output import normalise_output, resolve_handler_value
from handrail.tools.handlers import Style
from handrail.tools.tool import Tool

STOPPED = 128 + signal.SIGTERM
"""The exit code of a worker that SIGTERM has ended."""
_M_ARENA_MAX = -8
"""The name of the setting in glibc's malloc.h."""


class WorkerStopped(SystemExit):
    """SIGTERM came: unwind, so that the tool's own clean-up runs. A `SystemExit`, since asyncio lets that through."""


def die_when_spent() -> None:
    """Let the signal for processor time end the process, whatever an earlier tool has made of it."""
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)


def serve_jobs(sock: socket.socket, heed_cpu: Callable[[], None] = die_when_spent) -> NoReturn:
    """Run the jobs that come over a socket until it closes."""
    worker = WorkerProcess(sock, heed_cpu)
    end_with_host(sock)
    try:
        signal.signal(signal.SIGTERM, worker.stop)
        worker.serve()
    except WorkerStopped:
        flush_standard_streams()
    os._exit(STOPPED)


def answer_job(number: int, run: Callable[[], Output]) -> Answer:
    """Run a job. Whatever the tool does, there is an answer, unless it ends the process or is stopped."""
    try:
        return JobDone(number, run())
    except WorkerStopped:
        raise
    except InvalidArguments as error:
        return JobFailed(number, error.outcome, error.code, error.message, error.problems)
    except ToolError as error:
        return JobFailed(number, error.outcome, error.code, error.message)
    except MemoryError as error:
        return JobCrashed(number, describe_exception(error), "", out_of_memory=True)
    except BaseException as error:
        return JobCrashed(number, describe_exception(error), "".join(traceback.format_exception(error)))


def encode_answer(answer: Answer, limit: int) -> bytes:
    """An answer as it is sent; one that cannot be is replaced by the reason."""
    try:
        return length_prefixed(answer, limit)
    except FrameError as error:
        message = f"the tool ran, but its result cannot be sent: {error}"
        return length_prefixed(JobFailed(answer.number, "failed", INVALID_OUTPUT, message))


class WorkerProcess:
    def __init__(self, sock: socket.socket, heed_cpu: Callable[[], None]) -> None:
        self._sock = sock
        self._heed_cpu = heed_cpu
        self._sending = threading.Lock()
        self._pid = os.getpid()
        self._tools: dict[tuple[HandlerTarget, str, Style, bool], Tool] = {}
        self._bounded = False
        self._stopping = False

    def serve(self) -> None:
        frames = FrameSplitter()
        while not self._stopping:
            data = self._sock.recv(CHUNK)
            if not data:
                _end_group()
            for body in frames.feed(data):
                job = read_job(body)
                answer = answer_job(job.number, partial(self._run, job))
                if os.getpid() != self._pid:
                    os._exit(0)  # the tool has forked, and this is the copy
                flush_standard_streams()
                self._send(encode_answer(answer, job.frame_limit))

    def stop(self, number: int, stack: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._stopping = True
        raise WorkerStopped(STOPPED)

    def _prepare(self, job: WorkerJob) -> None:
        if sys.path != list(job.path):
            sys.path[:] = job.path
        if job.directory is not None:
            os.chdir(job.directory)
        if not self._bounded and job.memory_bytes is not None:
            limit_memory(job.memory_bytes)
        self._bounded = True
        if job.cpu_seconds is not None:
            self._heed_cpu()
            _limit_cpu(job.cpu_seconds)

    def _run(self, job: WorkerJob) -> Output:
        self._prepare(job)
        tool = self._tool(job)
        invocation = _WorkerInvocation(
            ToolCall(job.call_id, job.tool_name, job.arguments),
            job.arguments,
            job.context,
            job.idempotency_key,
            report=lambda current, total, stage: self._report(job, current, total, stage),
            nested=_no_nested,
        )
        return normalise_output(resolve_handler_value(tool.start(invocation, tool.convert(job.arguments))), job.style)

    def _tool(self, job: WorkerJob) -> Tool:
        key = (job.target, job.tool_name, job.style, job.typed)
        if key not in self._tools:
            handler = _found(job.target)
            # The host has validated the arguments: here the schema only has to be one.
            self._tools[key] = (
                Tool.from_function(handler)
                if job.typed
                else Tool.from_function(handler, name=job.tool_name, schema={"type": "object"}, style=job.style)
            )
        return self._tools[key]

    def _report(self, job: WorkerJob, current: float | None, total: float | None, stage: str) -> None:
        self._send(length_prefixed(JobProgress(job.number, current, total, str(stage)), job.frame_limit))

    def _send(self, data: bytes) -> None:
        if os.getpid() == self._pid:  # a copy that the tool has forked has no say
            with self._sending:
                self._sock.sendall(data)


def _found(target: HandlerTarget) -> Any:
    try:
        return import_handler(target)
    except (WorkerStopped, MemoryError):
        raise
    except BaseException as error:
        where = target.file or target.module
        why = f"{target.qualname!r} of {where!r} could not be imported in a worker process: {describe_exception(error)}"
        raise ToolError("not_importable", why) from error


class _WorkerInvocation(Invocation[Any]):
    """An invocation without what only the host's process has."""

    __slots__ = ()

    @property
    def deps(self) -> NoReturn:
        raise ToolError("not_available", "dependencies cannot cross to another process; use isolation='thread'")


async def _no_nested(name: str, arguments: dict[str, Any], scopes: tuple[str, ...] | None, key: str) -> ToolResult:
    raise ToolError(
        "not_available",
        f"{name!r} cannot be called from a tool in another process; where it is trusted, use isolation='thread'",
    )


def limit_memory(allowed: int) -> None:
    """Let the address space grow by so much over what the bare worker has; without /proc there is no limit."""
    _share_one_arena()
    try:
        _lower(resource.RLIMIT_AS, address_space() + allowed)
    except FileNotFoundError:
        return


def _share_one_arena() -> None:
    """Stop glibc from reserving 64 MiB of address space for the first thread: the limit would count them."""
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def address_space() -> int:
    """The bytes of address space that this process has.

    Raises:
        FileNotFoundError: There is no /proc.
    """
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _limit_cpu(allowed: float) -> None:
    """Sets only the soft limit, so that the next job can move it. Linux counts whole seconds."""
    _lower(resource.RLIMIT_CPU, math.ceil(time.process_time() + allowed))


def _lower(limit: int, value: int) -> None:
    _, hard = resource.getrlimit(limit)
    resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def end_with_host(sock: socket.socket) -> None:
    """Let this process end when the other end of its socket is closed, whatever it is doing."""
    threading.Thread(target=_watch, args=(sock.fileno(),), name="handrail-watch", daemon=True).start()


def _watch(fd: int) -> None:
    """End when the host has gone, even in the middle of a job."""
    poll = select.poll()
    poll.register(fd, 0)
    poll.poll()
    _end_group()


def _end_group() -> NoReturn:
    os.killpg(0, signal.SIGKILL)
    os._exit(STOPPED)


def flush_standard_streams() -> None:
    """Write out what is buffered for the standard streams."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue  # the tool has closed or replaced it
