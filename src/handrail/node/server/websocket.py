"""Calls over WebSocket, on the path of the others: `hearthnet-bus.v2`, one call for each socket.

It opens the door and hears what is wanted; `talk.py` goes on from there. Only what streams is
called here. Who may come in at all (names, pages, numbers) is looked at before.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from handrail.core.canonical import canonical_json
from handrail.core.errors import BusError
from handrail.core.ids import new_id
from handrail.core.redact import Secret
from handrail.core.timeouts import time_limit
from handrail.node.bus.request import Caller
from handrail.node.server.authentication import caller_of
from handrail.node.server.call_route import call_digest, check_community, check_token_still_valid
from handrail.node.server.envelope import CallEnvelope, envelope_from_object
from handrail.node.server.json_responses import error_response
from handrail.node.server.large_messages import admit_large_messages, identify_sender
from handrail.node.server.retry_checks import may_run_again, unknown_call_error
from handrail.node.server.socket_messages import BadSocketMessage, First, SocketResumeMessage, read_first_message
from handrail.node.server.socket_session import POLICY, AcceptedSocket, SocketClientGone, SocketSession
from handrail.node.server.stream_replay import CallKey, ReplayReader

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.websockets import WebSocket

    from handrail.node.server.node import NodeServer

SUBPROTOCOL = "hearthnet-bus.v2"


async def websocket_call(websocket: WebSocket, server: NodeServer) -> None:
    """Serve one socket, from its first message to its last frame."""
    if SUBPROTOCOL not in websocket.scope["subprotocols"]:
        await websocket.send_denial_response(_other_protocol())
        return
    await admit_large_messages(server, websocket)
    await websocket.accept(subprotocol=SUBPROTOCOL)
    wire = AcceptedSocket(websocket)
    try:
        reader = await _begun(websocket, server, wire)
    except SocketClientGone:
        return
    if reader is not None:
        await SocketSession(wire, reader, server.limits).run()


def _other_protocol() -> Response:
    """The answer to an upgrade that is not made; the client can ask in another way."""
    error = BusError("not_implemented", f"on a socket this node speaks {SUBPROTOCOL}", supported=[SUBPROTOCOL])
    return error_response(error, 426, {"upgrade": "websocket", "sec-websocket-protocol": SUBPROTOCOL})


async def _begun(websocket: WebSocket, server: NodeServer, wire: AcceptedSocket) -> ReplayReader | None:
    """The frames that were asked for; None when the client was told why there are none."""
    after = 0
    try:
        asked = await _first(server, wire)
        if isinstance(asked, SocketResumeMessage):
            after = asked.after
            return await _resumed(websocket, server, asked)
        envelope = _envelope(asked.envelope, asked.signature)
        caller, token = await _identified(websocket, server, envelope)
        return _started(server, envelope, caller, token)
    except BadSocketMessage as bad:
        await wire.error(bad.error, after + 1)
        await wire.close(bad.code)
    except BusError as error:
        await wire.error(error, after + 1)
        await wire.close(POLICY)
    return None


async def _first(server: NodeServer, wire: AcceptedSocket) -> First:
    seconds = server.limits.sockets.first_seconds
    try:
        async with time_limit(seconds):
            message = await wire.receive()
    except TimeoutError:
        raise BusError("timeout", f"no call came within {seconds:g} s", local="idle_timeout") from None
    return read_first_message(message, server.limits.body)


async def _resumed(websocket: WebSocket, server: NodeServer, asked: SocketResumeMessage) -> ReplayReader:
    envelope = None
    if asked.envelope is not None:
        envelope = _envelope({**asked.envelope, "request_id": asked.request_id, "attempt": 2}, asked.signature)
    caller, token = await _identified(websocket, server, envelope)
    running = server.replay.find(CallKey.of(caller, token, asked.request_id))
    if running is not None:
        await check_token_still_valid(server, caller, token)
        return running.reader(asked.after)
    if asked.after or envelope is None:
        raise unknown_call_error("failed" if may_run_again(server.bus, envelope) else "in_doubt")
    return _started(server, envelope, caller, token)


def _started(server: NodeServer, envelope: CallEnvelope, caller: Caller, token: Secret | None) -> ReplayReader:
    _streams(server, envelope)
    call_id = envelope.request_id or new_id("call")
    key = CallKey.of(caller, token, call_id)
    server.met.check(server.bus, envelope, key)
    terms = envelope.terms(caller, token, call_id, server.limits.timeout)
    called = (envelope.capability, envelope.version, envelope.body)
    running = server.replay.start(
        key, lambda: server.bus.stream(*called, interactive=envelope.interactive, terms=terms), call_digest(envelope)
    )
    return running.reader()


async def _identified(
    websocket: WebSocket, server: NodeServer, envelope: CallEnvelope | None
) -> tuple[Caller, Secret | None]:
    """Who calls. Once the node knows them, the messages that follow may be large; what they may is said by the bus."""
    caller, token = _who(websocket, server, envelope)
    with contextlib.suppress(BusError):
        await identify_sender(server, websocket, caller, token)
    return caller, token


def _who(websocket: WebSocket, server: NodeServer, envelope: CallEnvelope | None) -> tuple[Caller, Secret | None]:
    if envelope is None:
        return caller_of(server, websocket.headers)
    check_community(server, envelope)
    return caller_of(server, websocket.headers, envelope, canonical_json(envelope.body))


def _envelope(said: dict[str, Any], signature: str) -> CallEnvelope:
    """On a socket a client answers calls unless it says that it does not."""
    return envelope_from_object({"interactive": True, **said, **({"signature": signature} if signature else {})})


def _streams(server: NodeServer, envelope: CallEnvelope) -> None:
    """Raises:
    BusError: It has no frames, and is asked for in another way (`not_implemented`).
    """
    descriptor = server.bus.registry.find(envelope.capability, envelope.version)
    if descriptor is not None and descriptor.stream_schema is None:
        raise BusError("not_implemented", f"{descriptor.full_name} does not stream; call it by POST", transport="sse")
