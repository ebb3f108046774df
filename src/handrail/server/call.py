"""`POST /bus/v1/call`: one call of a capability, answered as JSON or as a stream of events."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from handrail.bus.port import Calling
from handrail.bus.request import Caller
from handrail.core.canonical import canonical
from handrail.core.errors import BusError, Outcome
from handrail.core.ids import new_id
from handrail.core.redact import Secret
from handrail.server.again import may_run_again
from handrail.server.answers import answer
from handrail.server.door import caller_of
from handrail.server.envelope import Envelope, envelope_from, read_body, read_call, single
from handrail.server.negotiate import ENVELOPE, JSON, SSE, accepted, require_json
from handrail.server.replay import Key, Reader
from handrail.server.sse import REQUEST_ID, EventStream

if TYPE_CHECKING:
    from handrail.server.node import NodeServer

PATH = "/bus/v1/call"


async def call(server: NodeServer, request: Request) -> ASGIApp:
    """Answer a call.

    Raises:
        BusError: It cannot be made, or it failed before its first frame.
        HTTPException: The client wants something else, or sends something else, than JSON.
    """
    form = accepted(request.headers, JSON, SSE)
    whole = require_json(request.headers, JSON, ENVELOPE) == ENVELOPE
    envelope, caller, token = _read(server, request.headers, await request.body(), whole=whole)
    same_community(server, envelope)
    call_id = envelope.request_id or new_id("call")
    how = envelope.how(caller, token, call_id, server.limits.timeout)
    key = Key.of(caller, token, call_id)
    if form == SSE:
        after = _after(request)
        if after:
            await still_good(server, how)
        return EventStream(_reader(server, envelope, how, key, after), keep_alive=server.limits.keep_alive)
    return await _whole(server, envelope, how, key, request)


def _read(server: NodeServer, headers: Headers, raw: bytes, *, whole: bool) -> tuple[Envelope, Caller, Secret | None]:
    """The call, and who makes it. Where the headers say who that is, nobody else's body is parsed."""
    stated = None if whole else envelope_from(headers)
    if stated is None:
        envelope, signed = read_call(raw, max_size=server.limits.body)
        return envelope, *caller_of(server, headers, envelope, signed)
    caller, token = caller_of(server, headers, stated, raw)
    return read_body(stated, raw, max_size=server.limits.body), caller, token


async def _whole(server: NodeServer, envelope: Envelope, how: Calling, key: Key, request: Request) -> Response:
    def work() -> Coroutine[Any, Any, dict[str, Any]]:
        return server.bus.call(envelope.capability, envelope.version, envelope.body, **how)

    server.met.check(server.bus, envelope, key)
    harmless = may_run_again(server.bus, envelope)
    asked = server.calls.start(key, work, asked_for(envelope), harmless=harmless)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        response = await asked.answer(gone)
    finally:
        gone.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await gone
    # Who is gone gets nothing; the status is for those who look at what the server sent.
    return answer({}, 499) if response is None else answer(response, headers={REQUEST_ID.decode(): key.call_id})


def _reader(server: NodeServer, envelope: Envelope, how: Calling, key: Key, after: int) -> Reader:
    if after and server.replay.find(key) is None:
        outcome: Outcome = "failed" if may_run_again(server.bus, envelope) else "in_doubt"
        why = "there is no such stream any more; ask for its answer with the same request id, and the next attempt"
        raise BusError("not_found", why, outcome=outcome)
    server.met.check(server.bus, envelope, key)
    running = server.replay.start(
        key,
        lambda: server.bus.stream(envelope.capability, envelope.version, envelope.body, **how),
        asked_for(envelope),
    )
    return running.reader(after)


def asked_for(envelope: Envelope) -> bytes:
    """A digest of what is called, so that one request id stands for one call."""
    name = f"{envelope.capability}@{envelope.version} ".encode()
    return hashlib.sha256(name + canonical(envelope.body)).digest()


def _after(request: Request) -> int:
    """The last frame that a client has, which takes up a stream."""
    said = single(request.headers, "last-event-id") or "0"
    if not (said.isascii() and said.isdecimal() and len(said) < 12):
        raise BusError("bad_request", "Last-Event-ID is the number of a frame")
    return int(said)


async def still_good(server: NodeServer, how: Calling) -> None:
    """A token that was good when a stream began may not be good any more.

    Raises:
        BusError: It is not (`token_…`).
    """
    caller, token = how["caller"], how["token"]
    if server.identify is not None and caller is not None and token is not None:
        await server.identify(caller, Secret(token))


def same_community(server: NodeServer, envelope: Envelope) -> None:
    """Raises:
    BusError: The call is for another community (`not_federated`).
    """
    if envelope.community and server.node.community and envelope.community != server.node.community:
        raise BusError("not_federated", "this node is of another community", outcome="forbidden")


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
