"""How something that the desk can do becomes a capability.

Each of them streams, since only what streams is called over a WebSocket: one that has a single answer sends it as
the frame `answer`. They are for whoever runs the node (`trusted`, with a scope that covers them), and their calls are
not in the record: what a person does there is recorded where it happens, in the run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable
from typing import Any

import msgspec

from handrail.core.errors import BusError, HandrailError, UsageError
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import Handler, Predicate
from handrail.node.bus.request import Caller, RouteRequest
from handrail.node.services.schema_parts import closed_object, request_schema_of

ANSWER = "answer"
Offered = tuple[CapabilityDescriptor, Handler, Predicate]
Do = Callable[..., Any]
"""Given the checked `input` by name: what goes back, or an awaitable of it; None is an empty answer."""
AtMachine = Callable[[Caller], bool]
"""Whether a caller is the person at the machine: whoever holds the token that the node made for its own start. Tokens
that were issued are for others, whatever they allow."""
Stream = Callable[[RouteRequest], Awaitable[None]]
"""Sends its frames itself."""
_ANY: dict[str, Any] = {"type": "object"}
_LONG = 3_600.0


class CapabilityTable:
    """Makes capabilities of rows. The fields of a row are words, as `id before limit?`; one with `?` may be left out.
    What each word means is the same in all rows."""

    def __init__(self, schemas: Mapping[str, dict[str, Any]]) -> None:
        self._schemas = schemas

    def answer(
        self,
        name: str,
        description: str,
        do: Do,
        fields: str = "",
        key: str = "",
        *,
        with_caller: bool = False,
        changes: bool = False,
        seconds: float = 60.0,
    ) -> Offered:
        """One answer to one question, under `key` if it is no object. `do` is also given the `caller` where it matters
        who asks; `changes` is for what must not happen twice by itself."""

        async def work(request: RouteRequest) -> Any:
            found = do(**request.input, **({"caller": request.caller} if with_caller else {}))
            return await found if isawaitable(found) else found

        async def handle(request: RouteRequest) -> dict[str, Any]:
            found = await _done(work(request))
            shown = {key: msgspec.to_builtins(found)} if key else msgspec.to_builtins({} if found is None else found)
            await request.send(ANSWER, shown if isinstance(shown, dict) else {"value": shown})
            return {"output": {}}

        return self._described(name, description, fields, (ANSWER,), changes, seconds), handle, _always

    def stream(
        self,
        name: str,
        description: str,
        stream: Stream,
        fields: str = "",
        *,
        frames: Sequence[str],
        changes: bool = False,
    ) -> Offered:
        """Frames for as long as the caller listens; an hour at most, and then it asks again."""

        async def handle(request: RouteRequest) -> dict[str, Any]:
            await _done(stream(request))
            return {"output": {}}

        return self._described(name, description, fields, frames, changes, _LONG), handle, _always

    def _described(
        self, name: str, description: str, fields: str, frames: Sequence[str], changes: bool, seconds: float
    ) -> CapabilityDescriptor:
        known = {word.rstrip("?"): self._schemas[word.rstrip("?")] for word in fields.split()}
        required = [word for word in fields.split() if not word.endswith("?")]
        return CapabilityDescriptor(
            name=name,
            description=description,
            request_schema=request_schema_of(closed_object(known, required)),
            stream_schema=dict.fromkeys(frames, _ANY),
            max_concurrent=256,
            trust_required="trusted",
            timeout_seconds=seconds,
            side_effects=changes,
            recorded=False,
        )


async def _done(work: Awaitable[Any]) -> Any:
    """Awaits work of the desk.

    Raises:
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
