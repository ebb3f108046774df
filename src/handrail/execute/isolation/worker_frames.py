"""What crosses between the host and a worker process: one job, its progress and its answer, as JSON in frames."""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Callable
from typing import Any, assert_never

import msgspec
from msgspec import Struct

from handrail.core.calls import Output
from handrail.core.context import Context, LiveObject
from handrail.core.errors import (
    Cancelled,
    Denied,
    Forbidden,
    InDoubt,
    InvalidArguments,
    LimitReached,
    Outcome,
    TimedOut,
    ToolError,
)
from handrail.core.framing import FrameError, length_prefixed
from handrail.core.invocation import Invocation
from handrail.core.jsontext import first_non_json
from handrail.execute.isolation.handler_target import HandlerTarget, target_of
from handrail.execute.isolation.worker_limits import ProcessLimits
from handrail.tools.handlers import Style
from handrail.tools.tool import Tool

CHUNK = 2**18


class WorkerJob(Struct, frozen=True, kw_only=True):
    """One call, and the place to run it in."""

    number: int
    target: HandlerTarget
    style: Style
    typed: bool
    """The handler's own signature says what its arguments are; the worker converts them to its types."""
    call_id: str
    tool_name: str
    arguments: dict[str, Any]
    context: Context
    idempotency_key: str
    path: tuple[str, ...]
    directory: str | None
    memory_bytes: int | None
    cpu_seconds: float | None
    frame_limit: int


class JobProgress(Struct, frozen=True, tag="progress"):
    number: int
    current: float | None
    total: float | None
    stage: str


class JobDone(Struct, frozen=True, tag="done"):
    number: int
    output: Output


class JobFailed(Struct, frozen=True, tag="failed"):
    """The tool, or a check on its way, said why there is no value."""

    number: int
    outcome: Outcome
    code: str
    message: str
    problems: tuple[str, ...] = ()


class JobCrashed(Struct, frozen=True, tag="crashed"):
    """The tool raised something it did not mean to."""

    number: int
    text: str
    trace: str
    out_of_memory: bool = False


Answer = JobDone | JobFailed | JobCrashed


_jobs = msgspec.json.Decoder(WorkerJob)
_replies: msgspec.json.Decoder[JobProgress | Answer] = msgspec.json.Decoder(JobProgress | Answer)


def read_job(body: bytes) -> WorkerJob:
    return _jobs.decode(body)


def read_reply(body: bytes) -> JobProgress | Answer:
    """Decodes a reply of a worker.

    Raises:
        FrameError: The body is not a reply.
    """
    try:
        return _replies.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FrameError(f"a reply could not be read: {error}") from error


RECORD = struct.Struct("!Bqq")

FORK = 1
"""To the server: ticket, 0; the worker's socket goes with it."""
SIGNAL = 2
"""To the server: pid, signal number, for the whole group."""
FORKED = 3
"""To the host: ticket, pid; or ticket, the error number negated."""
EXITED = 4
"""To the host: pid, exit code; of a signal, its number negated."""


Around = tuple[tuple[str, ...], str | None]
"""The import path and the working directory of a job; None leaves the worker where it is."""


def current_surroundings() -> Around:
    """The import path and working directory of this process."""
    try:
        return tuple(sys.path), os.getcwd()
    except FileNotFoundError:
        return tuple(sys.path), None  # it was removed; the worker keeps its own


def encode_job(
    number: int, tool: Tool, invocation: Invocation, arguments: dict[str, Any], limits: ProcessLimits, around: Around
) -> bytes:
    """The job in a frame. The token and live objects stay here.

    Raises:
        ToolError: Something in it is not JSON, or it is too large (code `cannot_cross`).
        InvalidDefinition: The handler cannot be imported by name.
    """
    context = msgspec.structs.replace(
        invocation.context,
        token=None,
        held=(),  # live objects; a worker makes no calls of its own, so nobody there asks for them
        raised=None,
        deps=None,
        budget=None,
        words_reader=None,
        auxdata={key: value for key, value in invocation.context.auxdata.items() if not isinstance(value, LiveObject)},
        namespace=dict(invocation.context.namespace),
    )
    path, directory = around
    job = WorkerJob(
        number=number,
        target=target_of(tool),
        style=tool.style or "arguments",
        typed=tool.shape is not None,
        call_id=invocation.id,
        tool_name=invocation.tool_name,
        arguments=arguments,
        context=context,
        idempotency_key=invocation.idempotency_key,
        path=path,
        directory=directory,
        memory_bytes=limits.memory_bytes,
        cpu_seconds=limits.cpu_seconds,
        frame_limit=limits.frame_bytes,
    )
    try:
        for name, value in (("arguments", arguments), ("auxdata", context.auxdata), ("namespace", context.namespace)):
            if (odd := first_non_json(value, name)) is not None:
                raise FrameError(f"only JSON can cross, and {odd}")
        return length_prefixed(job, limits.frame_bytes)
    except (FrameError, RecursionError) as error:
        raise ToolError("cannot_cross", f"{tool.name!r} runs in another process: {error}") from error


WORKER_LOST = "worker_lost"
"""The code of a call whose worker ended under it."""

MAY_HAVE = "what it had done by then may have taken effect"
NOTHING_LEFT = "it ran in the sandbox, and nothing that it did is left"
_REFUSALS: dict[Outcome, Callable[[str], ToolError]] = {
    kind.outcome: kind for kind in (Forbidden, Denied, TimedOut, Cancelled, InDoubt, LimitReached)
}


def output_of(answer: Answer, tool: str, memory_bytes: int | None, after: str = MAY_HAVE) -> Output:
    """The output in a worker's answer.

    Raises:
        ToolError: The answer is not a value.
    """
    match answer:
        case JobDone():
            return answer.output
        case JobFailed():
            raise _raised(answer)
        case JobCrashed() if answer.out_of_memory and memory_bytes is not None:
            allowed = f"{memory_bytes / 2**20:g} MiB"
            raise ToolError(WORKER_LOST, f"{tool!r} needed more than its limit of {allowed} of memory; {after}")
        case JobCrashed():
            error = ToolError("failed", answer.text)
            error.add_note(answer.trace)
            raise error
    assert_never(answer)


def worker_lost_error(tool: str, why: str, after: str = MAY_HAVE) -> ToolError:
    return ToolError(WORKER_LOST, f"the worker process of {tool!r} {why}; {after}")


def worker_start_error(tool: str, last_words: str) -> ToolError:
    """A worker ended before it took any job. What it complained of is ours: no tool has run in it."""
    error = ToolError(WORKER_LOST, f"{tool!r} did not run: its worker did not come up: {last_words.splitlines()[-1]}")
    error.add_note(last_words)
    return error


def exit_cause(code: int | None, cpu_seconds: float | None) -> str:
    """Why a worker ended, from its exit code; of a signal, the number negated."""
    match code:
        case None:
            return "ended before it had answered: the server that it was forked from is gone"
        case _ if code >= 0:
            return f"ended before it had answered, with exit code {code}"
        case _ if -code == signal.SIGXCPU and cpu_seconds is not None:
            return f"used more than its limit of {cpu_seconds:g} s of processor time"
        case _ if -code == signal.SIGKILL:
            return "was killed by SIGKILL, by somebody or for want of memory"
    return f"was killed by {_name(-code)}"


def worker_timeout_error(tool: str, timeout: float, after: str = MAY_HAVE, *, started: bool, ended: bool) -> TimedOut:
    if not started:
        return TimedOut(f"{tool!r} did not start: no worker process was ready within {timeout:g} s")
    if not ended:
        return TimedOut(
            f"{tool!r} took longer than {timeout:g} s; it was killed but has not ended, and may take effect"
        )
    return TimedOut(f"{tool!r} took longer than {timeout:g} s and was stopped; {after}")


def _raised(failed: JobFailed) -> ToolError:
    """The error that the tool raised, as far as a caller can tell."""
    if failed.outcome == "invalid_arguments":
        return InvalidArguments(failed.problems)
    if (kind := _REFUSALS.get(failed.outcome)) is not None:
        return kind(failed.message)
    return ToolError(failed.code, failed.message)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
