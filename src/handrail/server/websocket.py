"""Calls over WebSocket, on the path of the others: `hearthnet-bus.v2`, one call for each socket.

It opens the door and hears what is wanted; `talk.py` goes on from there. Only what streams is
called here. Who may come in at all (names, pages, numbers) is looked at before.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from handrail.bus.port import Calling
from handrail.bus.request import Caller
from handrail.core.canonical import canonical
from handrail.core.errors import BusError
from handrail.core.ids import new_id
from handrail.core.redact import Secret
from handrail.core.timeouts import time_limit
from handrail.server.again import may_run_again, unknown
from handrail.server.answers import refused
from handrail.server.call import asked_for, same_community, still_good
from handrail.server.door import caller_of
from handrail.server.envelope import Envelope, envelope_of
from handrail.server.messages import BadFrame, First, Resume, first
from handrail.server.replay import Key, Reader
from handrail.server.strangers import admit_large_messages, identify_sender
from handrail.server.talk import POLICY, Gone, Talk, Wire

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.websockets import WebSocket

    from handrail.server.node import NodeServer

SUBPROTOCOL = "hearthnet-bus.v2"


async def websocket_call(websocket: WebSocket, server: NodeServer) -> None:
    """Serve one socket, from its first message to its last frame."""
    if SUBPROTOCOL not in websocket.scope["subprotocols"]:
        await websocket.send_denial_response(_other_protocol())
        return
    await admit_large_messages(server, websocket)
    await websocket.accept(subprotocol=SUBPROTOCOL)
    wire = Wire(websocket)
    try:
        reader = await _begun(websocket, server, wire)
    except Gone:
        return
    if reader is not None:
        await Talk(wire, reader, server.limits).run()


def _other_protocol() -> Response:
    """The answer to an upgrade that is not made; the client can ask in another way."""
    error = BusError("not_implemented", f"on a socket this node speaks {SUBPROTOCOL}", supported=[SUBPROTOCOL])
    return refused(error, 426, {"upgrade": "websocket", "sec-websocket-protocol": SUBPROTOCOL})


async def _begun(websocket: WebSocket, server: NodeServer, wire: Wire) -> Reader | None:
    """The frames that were asked for; None when the client was told why there are none."""
    after = 0
    try:
        asked = await _first(server, wire)
        if isinstance(asked, Resume):
            after = asked.after
            return await _resumed(websocket, server, asked)
        envelope = _envelope(asked.envelope, asked.signature)
        caller, token = await _identified(websocket, server, envelope)
        return _started(server, envelope, caller, token)
    except BadFrame as bad:
        await wire.error(bad.error, after + 1)
        await wire.close(bad.code)
    except BusError as error:
        await wire.error(error, after + 1)
        await wire.close(POLICY)
    return None


async def _first(server: NodeServer, wire: Wire) -> First:
    seconds = server.limits.sockets.first_seconds
    try:
        async with time_limit(seconds):
            message = await wire.receive()
    except TimeoutError:
        raise BusError("timeout", f"no call came within {seconds:g} s", local="idle_timeout") from None
    return first(message, server.limits.body)


async def _resumed(websocket: WebSocket, server: NodeServer, asked: Resume) -> Reader:
    envelope = None
    if asked.envelope is not None:
        envelope = _envelope({**asked.envelope, "request_id": asked.request_id, "attempt": 2}, asked.signature)
    caller, token = await _identified(websocket, server, envelope)
    running = server.replay.find(Key.of(caller, token, asked.request_id))
    if running is not None:
        await still_good(server, Calling(caller=caller, token=token))
        return running.reader(asked.after)
    if asked.after or envelope is None:
        raise unknown("failed" if may_run_again(server.bus, envelope) else "in_doubt")
    return _started(server, envelope, caller, token)


def _started(server: NodeServer, envelope: Envelope, caller: Caller, token: Secret | None) -> Reader:
    _streams(server, envelope)
    call_id = envelope.request_id or new_id("call")
    key = Key.of(caller, token, call_id)
    server.met.check(server.bus, envelope, key)
    how = envelope.how(caller, token, call_id, server.limits.timeout)
    called = (envelope.capability, envelope.version, envelope.body)
    running = server.replay.start(
        key, lambda: server.bus.stream(*called, interactive=envelope.interactive, **how), asked_for(envelope)
    )
    return running.reader()


async def _identified(
    websocket: WebSocket, server: NodeServer, envelope: Envelope | None
) -> tuple[Caller, Secret | None]:
    """Who calls. Once the node knows them, the messages that follow may be large; what they may is said by the bus."""
    caller, token = _who(websocket, server, envelope)
    with contextlib.suppress(BusError):
        await identify_sender(server, websocket, caller, token)
    return caller, token


def _who(websocket: WebSocket, server: NodeServer, envelope: Envelope | None) -> tuple[Caller, Secret | None]:
    if envelope is None:
        return caller_of(server, websocket.headers)
    same_community(server, envelope)
    return caller_of(server, websocket.headers, envelope, canonical(envelope.body))


def _envelope(said: dict[str, Any], signature: str) -> Envelope:
    """On a socket a client answers calls unless it says that it does not."""
    return envelope_of({"interactive": True, **said, **({"signature": signature} if signature else {})})


def _streams(server: NodeServer, envelope: Envelope) -> None:
    """Raises:
    BusError: It has no frames, and is asked for in another way (`not_implemented`).
    """
    descriptor = server.bus.registry.find(envelope.capability, envelope.version)
    if descriptor is not None and descriptor.stream_schema is None:
        raise BusError("not_implemented", f"{descriptor.full_name} does not stream; call it by POST", transport="sse")
