"""A call as the job of a worker: what crosses to the other process, and what must not."""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec

from handrail.core.context import LiveObject
from handrail.core.errors import ToolError
from handrail.core.framing import FrameError, length_prefixed
from handrail.core.invocation import Invocation
from handrail.execute.isolation.handler_target import target_of
from handrail.execute.isolation.non_json import first_non_json
from handrail.execute.isolation.worker_frames import WorkerJob
from handrail.execute.isolation.worker_limits import ProcessLimits
from handrail.tools.tool import Tool

Around = tuple[tuple[str, ...], str | None]
"""The import path and the working directory of a job; None leaves the worker where it is."""


def current_surroundings() -> Around:
    """As they are in this process now."""
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
