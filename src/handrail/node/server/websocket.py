"""Calls over WebSocket, on the path of the others: `hearthnet-bus.v2`, one call for each socket.

Only what streams is called here. Once a call has begun, frames go out, and acks, answers and `cancel` come in.
No more frames are under way than the window has; who does not acknowledge them in time is cut off. A client that
vanishes leaves the call to whoever takes it up again, and then to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from handrail.core.canonical import canonical_json
from handrail.core.errors import BusError
from handrail.core.ids import new_id
from handrail.core.redact import Secret
from handrail.core.timeouts import time_limit, time_limit_at
from handrail.node.bus.request import Caller
from handrail.node.bus.stream_frame import ERROR
from handrail.node.server.admission import admit_large_messages, identify_sender
from handrail.node.server.authentication import caller_of
from handrail.node.server.call_route import check_community, check_token_still_valid, start_stream
from handrail.node.server.envelope import CallEnvelope, envelope_from_object
from handrail.node.server.json_responses import error_response
from handrail.node.server.retry_checks import may_run_again, unknown_call_error
from handrail.node.server.socket_messages import (
    BadSocketMessage,
    First,
    SocketAckMessage,
    SocketCancelMessage,
    SocketResumeMessage,
    SocketToolAnswer,
    read_first_message,
    read_later_message,
)
from handrail.node.server.stream_replay import CallKey, EncodedFrame, ReplayableStream, ReplayReader

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from handrail.node.server.node import NodeServer, ServerLimits

SUBPROTOCOL = "hearthnet-bus.v2"
NORMAL, POLICY, BROKEN = 1000, 1008, 1011
_encode = msgspec.json.Encoder().encode


async def websocket_call(websocket: WebSocket, server: NodeServer) -> None:
    """Serve one socket, from its first message to its last frame."""
    if SUBPROTOCOL not in websocket.scope["subprotocols"]:
        # An upgrade that is not made is answered; the client can ask in another way.
        error = BusError("not_implemented", f"on a socket this node speaks {SUBPROTOCOL}", supported=[SUBPROTOCOL])
        upgrade = {"upgrade": "websocket", "sec-websocket-protocol": SUBPROTOCOL}
        await websocket.send_denial_response(error_response(error, 426, upgrade))
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
    terms = envelope.terms(caller, token, call_id, server.limits.timeout)
    return start_stream(server, envelope, terms, key, interactive=envelope.interactive).reader()


async def _identified(
    websocket: WebSocket, server: NodeServer, envelope: CallEnvelope | None
) -> tuple[Caller, Secret | None]:
    """Identifies the caller. Then the messages that follow may be large; the bus decides what the caller may do."""
    if envelope is None:
        caller, token = caller_of(server, websocket.headers)
    else:
        check_community(server, envelope)
        caller, token = caller_of(server, websocket.headers, envelope, canonical_json(envelope.body))
    with contextlib.suppress(BusError):
        await identify_sender(server, websocket, caller, token)
    return caller, token


def _envelope(said: dict[str, Any], signature: str) -> CallEnvelope:
    """The first message. On a socket a client answers calls unless it says that it does not."""
    return envelope_from_object({"interactive": True, **said, **({"signature": signature} if signature else {})})


def _streams(server: NodeServer, envelope: CallEnvelope) -> None:
    """Refuses a capability that has no frames, and is asked for in another way."""
    descriptor = server.bus.registry.find(envelope.capability, envelope.version)
    if descriptor is not None and descriptor.stream_schema is None:
        raise BusError("not_implemented", f"{descriptor.full_name} does not stream; call it by POST", transport="sse")


class SocketClientGone(Exception):
    """The client is no longer there."""


class SocketIdleTooLong(Exception):
    """The socket was silent for too long."""


class SocketAcksMissing(Exception):
    """The client takes frames and does not say that it has them."""


class AcceptedSocket:
    """A socket that is accepted. A client that takes nothing is cut off by `handrail.http.uvicorn_server`."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self.busy_at = asyncio.get_running_loop().time()
        """When something last went over it, either way."""

    async def receive(self) -> dict[str, Any]:
        """The next message.

        Raises:
            SocketClientGone: There is nothing more to come.
        """
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise SocketClientGone
        self.busy_at = asyncio.get_running_loop().time()
        return dict(message)

    async def frame(self, frame: EncodedFrame) -> None:
        await self._send(b'{"event":%b,"data":%b,"seq":%d}' % (_encode(frame.event), frame.data, frame.seq))

    async def error(self, error: BusError, seq: int) -> None:
        """The last frame, where the stream has none of its own."""
        await self.frame(EncodedFrame(seq, ERROR, _encode(error.to_dict()), True))

    async def say(self, message: dict[str, Any]) -> None:
        """Something that is no frame."""
        await self._send(_encode(message))

    async def close(self, code: int, reason: str = "") -> None:
        with contextlib.suppress(Exception):  # it may be closed already, or the client gone
            await self._socket.close(code, reason)

    async def _send(self, data: bytes) -> None:
        from starlette.websockets import WebSocketDisconnect

        try:
            await self._socket.send({"type": "websocket.send", "text": data.decode()})
        except (WebSocketDisconnect, OSError, RuntimeError) as error:  # a socket that was closed meanwhile is the last
            raise SocketClientGone from error
        self.busy_at = asyncio.get_running_loop().time()


class SocketSession:
    def __init__(self, wire: AcceptedSocket, reader: ReplayReader, limits: ServerLimits) -> None:
        self._wire = wire
        self._reader = reader
        self._running: ReplayableStream = reader.running
        self._limits = limits
        self._sent = self._acked = reader.at
        self._heard = asyncio.Event()
        self._hurry = False
        """After `cancel` the end is all that matters, and nobody waits for acks."""

    async def run(self) -> None:
        """Runs until the last frame is sent or the client is gone. Nothing of the call is left then."""
        tasks = (asyncio.create_task(self._write()), asyncio.create_task(self._listen()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._reader.close()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        failed = (task.exception() for task in tasks if not task.cancelled())
        await self._end(next(filter(None, failed), None))

    async def _end(self, error: BaseException | None) -> None:
        match error:
            case None:
                await self._wire.close(NORMAL)
            case SocketClientGone():
                pass
            case SocketIdleTooLong():
                await self._wire.close(NORMAL, "idle_timeout")
            case SocketAcksMissing():
                await self._cut(BusError("timeout", "no ack came in time", local="ack_timeout"), POLICY)
            case BadSocketMessage():
                await self._cut(error.error, error.code)
            case BusError():
                await self._cut(error, BROKEN)
            case _:
                await self._cut(BusError("internal_error", "the node made a mistake; its log says where"), BROKEN)
                raise error

    async def _cut(self, error: BusError, code: int) -> None:
        """End the call and say why. A client that reads on over another socket keeps it."""
        self._running.end_alone()
        with contextlib.suppress(SocketClientGone):
            await self._wire.error(error, self._sent + 1)
        await self._wire.close(code)

    # ── out ──────────────────────────────────────────────────────────────────────────

    async def _write(self) -> None:
        while True:
            for frame in await self._reader.read(most=await self._room()):
                self._sent = frame.seq
                await self._wire.frame(frame)
                if frame.last:
                    return

    async def _room(self) -> int:
        """Waits until frames may be sent; returns how many.

        Raises:
            SocketAcksMissing: The client does not acknowledge what it has.
        """
        window, seconds = self._limits.sockets.window, self._limits.sockets.ack_seconds
        try:
            async with time_limit(seconds):
                while self._sent - self._acked >= window and not self._hurry:
                    self._heard.clear()
                    await self._heard.wait()
        except TimeoutError:
            raise SocketAcksMissing from None
        return window if self._hurry else window - (self._sent - self._acked)

    # ── in ───────────────────────────────────────────────────────────────────────────

    async def _listen(self) -> None:
        while True:
            match read_later_message(await self._message(), self._limits.body):
                case SocketAckMessage(upto=upto):
                    self._ack(upto)
                case SocketToolAnswer() as answer:
                    await self._answer(answer)
                case SocketCancelMessage():
                    self._hurry = True
                    self._heard.set()
                    self._running.end()

    async def _message(self) -> dict[str, Any]:
        loop, idle = asyncio.get_running_loop(), self._limits.sockets.idle_seconds
        while True:
            try:
                async with time_limit_at(self._wire.busy_at + idle):
                    return await self._wire.receive()
            except TimeoutError:
                if loop.time() - self._wire.busy_at >= idle:
                    raise SocketIdleTooLong from None

    def _ack(self, upto: int) -> None:
        if not self._acked <= upto <= self._sent:
            raise BadSocketMessage(f"an ack of {upto} where frames {self._acked} to {self._sent} can be acknowledged")
        self._acked = upto
        self._heard.set()

    async def _answer(self, answer: SocketToolAnswer) -> None:
        try:
            await self._running.stream.tool_result(answer.tool_call_id, answer.body, is_error=answer.failed)
        except BusError as error:
            await self._wire.say({"type": "refused", "tool_call_id": answer.tool_call_id, **error.to_dict()})
