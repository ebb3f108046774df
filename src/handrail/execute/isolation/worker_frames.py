"""What crosses between the host and a worker process: one job, its progress and its answer, as JSON in frames."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from handrail.core.calls import Output
from handrail.core.context import Context
from handrail.core.errors import Outcome
from handrail.core.framing import FrameError
from handrail.execute.isolation.handler_target import HandlerTarget
from handrail.tools.handlers import Style

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
    """
    Raises:
        FrameError: The body is not a reply.
    """
    try:
        return _replies.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FrameError(f"a reply could not be read: {error}") from error
