"""How something that the desk can do becomes a capability.

Each of them streams, since only what streams is called over a WebSocket: one that has a single answer sends it as
the frame `answer`. They are for whoever runs the node (`trusted`, with a scope that covers them), and their calls are
not in the record: what a person does there is recorded where it happens, in the run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from handrail.core.errors import BusError, HandrailError, UsageError
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import Handler, Predicate
from handrail.node.bus.request import Caller, RouteRequest
from handrail.node.services.schema_parts import closed_object, request_schema_of

ANSWER = "answer"
Offered = tuple[CapabilityDescriptor, Handler, Predicate]
Do = Callable[[dict[str, Any]], Awaitable[Any]]
"""Given the checked `input`: what goes back, as a value that `to_builtins` takes; None is an empty answer."""
DoFor = Callable[[dict[str, Any], Caller], Awaitable[Any]]
"""As `Do`, and given who asks."""
AtMachine = Callable[[Caller], bool]
"""Whether a caller is the person at the machine: whoever holds the token that the node made for its own start. Tokens
that were issued are for others, whatever they allow."""
Stream = Callable[[RouteRequest], Awaitable[None]]
"""Sends its frames itself."""
_ANY: dict[str, Any] = {"type": "object"}
_LONG = 3_600.0


def answer_capability(
    name: str,
    description: str,
    do: Do,
    fields: dict[str, Any] | None = None,
    required: Sequence[str] = (),
    *,
    changes: bool = False,
    seconds: float = 60.0,
) -> Offered:
    """One answer to one question. `changes` is for what must not happen twice by itself."""
    how: dict[str, Any] = {"changes": changes, "seconds": seconds}
    return caller_answer_capability(name, description, lambda given, caller: do(given), fields, required, **how)


def caller_answer_capability(
    name: str,
    description: str,
    do: DoFor,
    fields: dict[str, Any] | None = None,
    required: Sequence[str] = (),
    *,
    changes: bool = False,
    seconds: float = 60.0,
) -> Offered:
    """As `answer_capability`, where it matters who asks."""

    async def handle(request: RouteRequest) -> dict[str, Any]:
        found = await _done(do(request.input, request.caller))
        shown = {} if found is None else msgspec.to_builtins(found)
        await request.send(ANSWER, shown if isinstance(shown, dict) else {"value": shown})
        return {"output": {}}

    described = _described(name, description, fields, required, {ANSWER: _ANY}, changes, seconds)
    return described, handle, _always


def stream_capability(
    name: str,
    description: str,
    stream: Stream,
    fields: dict[str, Any] | None = None,
    required: Sequence[str] = (),
    *,
    frames: Sequence[str],
    changes: bool = False,
) -> Offered:
    """Frames for as long as the caller listens; an hour at most, and then it asks again."""

    async def handle(request: RouteRequest) -> dict[str, Any]:
        await _done(stream(request))
        return {"output": {}}

    described = _described(name, description, fields, required, dict.fromkeys(frames, _ANY), changes, _LONG)
    return described, handle, _always


def _described(
    name: str,
    description: str,
    fields: dict[str, Any] | None,
    required: Sequence[str],
    frames: dict[str, Any],
    changes: bool,
    seconds: float,
) -> CapabilityDescriptor:
    return CapabilityDescriptor(
        name=name,
        description=description,
        request_schema=request_schema_of(closed_object(fields or {}, required)),
        stream_schema=frames,
        max_concurrent=256,
        trust_required="trusted",
        timeout_seconds=seconds,
        side_effects=changes,
        recorded=False,
    )


async def _done(work: Awaitable[Any]) -> Any:
    """Raises:
    BusError: With the words of whatever went wrong, for the person at the page.
    """
    try:
        return await work
    except BusError:
        raise
    except UsageError as error:
        raise BusError("bad_request", str(error)) from error
    except HandrailError as error:
        raise BusError("internal_error", str(error)) from error


def _always(params: Any) -> bool:
    return True
