"""`POST /bus/v1/call`: one call of a capability, answered as JSON or as a stream of events."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from handrail.core.canonical import canonical_json
from handrail.core.errors import BusError, Outcome
from handrail.core.ids import new_id
from handrail.core.redact import Secret
from handrail.http.request_guard import ClientGone, disconnected, run_while_connected
from handrail.node.bus.request import Caller, CallTerms
from handrail.node.bus.stream_frame import ERROR
from handrail.node.server.authentication import caller_of
from handrail.node.server.content_negotiation import ENVELOPE, JSON, SSE, preferred_media_type, require_json
from handrail.node.server.envelope import (
    CallEnvelope,
    envelope_from_headers,
    read_call,
    single_header,
    with_parsed_body,
)
from handrail.node.server.json_responses import PLAIN, error_response, json_response
from handrail.node.server.retry_checks import may_run_again
from handrail.node.server.stream_replay import CallKey, EncodedFrame, ReplayableStream, ReplayReader

if TYPE_CHECKING:
    from handrail.node.server.node import NodeServer

PATH = "/bus/v1/call"
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),  # a proxy that collects a stream defeats it
    *PLAIN,
]
REQUEST_ID = b"x-hearthnet-request-id"
"""The header by which a client that was cut off finds its call again."""
_ALIVE = b": still there\n\n"


async def answer_call(server: NodeServer, request: Request) -> ASGIApp:
    """Answer a call.

    Raises:
        BusError: It cannot be made, or it failed before its first frame.
        HTTPException: The client wants something else, or sends something else, than JSON.
    """
    form = preferred_media_type(request.headers, JSON, SSE)
    whole = require_json(request.headers, JSON, ENVELOPE) == ENVELOPE
    envelope, caller, token = _read(server, request.headers, await request.body(), whole=whole)
    check_community(server, envelope)
    call_id = envelope.request_id or new_id("call")
    terms = envelope.terms(caller, token, call_id, server.limits.timeout)
    key = CallKey.of(caller, token, call_id)
    if form == SSE:
        after = _after(request)
        if after:
            await check_token_still_valid(server, caller, token)
        return BusEventStream(_reader(server, envelope, terms, key, after), keep_alive=server.limits.keep_alive)
    return await _whole(server, envelope, terms, key, request)


def _read(
    server: NodeServer, headers: Headers, raw: bytes, *, whole: bool
) -> tuple[CallEnvelope, Caller, Secret | None]:
    """The call, and who makes it. Where the headers say who that is, nobody else's body is parsed."""
    stated = None if whole else envelope_from_headers(headers)
    if stated is None:
        envelope, signed = read_call(raw, max_size=server.limits.body)
        return envelope, *caller_of(server, headers, envelope, signed)
    caller, token = caller_of(server, headers, stated, raw)
    return with_parsed_body(stated, raw, max_size=server.limits.body), caller, token


async def _whole(
    server: NodeServer, envelope: CallEnvelope, terms: CallTerms, key: CallKey, request: Request
) -> Response:
    def work() -> Coroutine[Any, Any, dict[str, Any]]:
        return server.bus.call(envelope.capability, envelope.version, envelope.body, terms=terms)

    server.met.check(server.bus, envelope, key)
    harmless = may_run_again(server.bus, envelope)
    asked = server.calls.start(key, work, call_digest(envelope), harmless=harmless)
    gone = asyncio.ensure_future(disconnected(request.receive))
    try:
        response = await asked.answer(gone)
    finally:
        gone.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await gone
    # Who is gone gets nothing; the status is for those who look at what the server sent.
    return (
        json_response({}, 499)
        if response is None
        else json_response(response, headers={REQUEST_ID.decode(): key.call_id})
    )


def _reader(server: NodeServer, envelope: CallEnvelope, terms: CallTerms, key: CallKey, after: int) -> ReplayReader:
    if after and server.replay.find(key) is None:
        outcome: Outcome = "failed" if may_run_again(server.bus, envelope) else "in_doubt"
        why = "there is no such stream any more; ask for its answer with the same request id, and the next attempt"
        raise BusError("not_found", why, outcome=outcome)
    return start_stream(server, envelope, terms, key).reader(after)


def start_stream(
    server: NodeServer, envelope: CallEnvelope, terms: CallTerms, key: CallKey, *, interactive: bool = False
) -> ReplayableStream:
    """The stream of a call, which is started unless it is under way."""
    server.met.check(server.bus, envelope, key)
    called = (envelope.capability, envelope.version, envelope.body)
    return server.replay.start(
        key, lambda: server.bus.stream(*called, interactive=interactive, terms=terms), call_digest(envelope)
    )


def call_digest(envelope: CallEnvelope) -> bytes:
    """A digest of what is called, so that one request id stands for one call."""
    name = f"{envelope.capability}@{envelope.version} ".encode()
    return hashlib.sha256(name + canonical_json(envelope.body)).digest()


def _after(request: Request) -> int:
    """The last frame that a client has, which takes up a stream."""
    said = single_header(request.headers, "last-event-id") or "0"
    if not (said.isascii() and said.isdecimal() and len(said) < 12):
        raise BusError("bad_request", "Last-Event-ID is the number of a frame")
    return int(said)


async def check_token_still_valid(server: NodeServer, caller: Caller, token: Secret | None) -> None:
    """Refuses, with a `BusError` (`token_…`), a token that was good when a stream began and is not any more."""
    if server.identify is not None and token is not None:
        await server.identify(caller, token)


def check_community(server: NodeServer, envelope: CallEnvelope) -> None:
    """Refuses a call for another community, with a `BusError` (`not_federated`)."""
    if envelope.community and server.node.community and envelope.community != server.node.community:
        raise BusError("not_federated", "this node is of another community", outcome="forbidden")


def encode_server_sent_events(frames: Iterable[EncodedFrame]) -> bytes:
    """Frames as they stand on the wire."""
    return b"".join(
        [b"event: %b\nid: %d\ndata: %b\n\n" % (each.event.encode(), each.seq, each.data) for each in frames]
    )


class BusEventStream:
    """The answer to one request: what its reader reads, until the last frame or until the client is gone."""

    def __init__(self, reader: ReplayReader, *, keep_alive: float) -> None:
        self._reader = reader
        self._headers = [*_HEADERS, (REQUEST_ID, reader.running.key.call_id.encode())]
        self._keep_alive = keep_alive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with contextlib.suppress(ClientGone, OSError):
                await run_while_connected(receive, self._answer(scope, receive, send))
        finally:
            self._reader.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        frames = await self._reader.read(seconds=self._keep_alive)
        if frames and frames[0].event == ERROR and frames[0].seq == 1:
            # Nothing was sent yet, so that the status can say it.
            await error_response(BusError.from_dict(msgspec.json.decode(frames[0].data)))(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        last = False
        while not last:
            last = bool(frames) and frames[-1].last
            body = encode_server_sent_events(frames) if frames else _ALIVE
            # A client that takes nothing is cut off by `handrail.http.uvicorn_server`, and then gone.
            await send({"type": "http.response.body", "body": body, "more_body": not last})
            frames = [] if last else await self._next()

    async def _next(self) -> list[EncodedFrame]:
        try:
            return await self._reader.read(seconds=self._keep_alive)
        except BusError as error:
            return [EncodedFrame(self._reader.at + 1, ERROR, msgspec.json.encode(error.to_dict()), True)]
