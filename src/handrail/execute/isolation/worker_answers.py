"""What a worker's answer, its end or its silence means, in the errors and words that the caller gets."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import assert_never

from handrail.core.calls import Output
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
from handrail.execute.isolation.worker_frames import Answer, JobCrashed, JobDone, JobFailed

WORKER_LOST = "worker_lost"
"""The code of a call whose worker ended under it."""

MAY_HAVE = "what it had done by then may have taken effect"
NOTHING_LEFT = "it ran in the sandbox, and nothing that it did is left"
_REFUSALS: dict[Outcome, Callable[[str], ToolError]] = {
    kind.outcome: kind for kind in (Forbidden, Denied, TimedOut, Cancelled, InDoubt, LimitReached)
}


def output_of(answer: Answer, tool: str, memory_bytes: int | None, after: str = MAY_HAVE) -> Output:
    """
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
