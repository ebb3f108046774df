"""The frames of a call over a WebSocket, on which the caller can answer and cancel.

A task of its own takes frames off the wire as they come and acknowledges every eighth,
so that a reader that runs a tool for a while is not taken for one that is gone. It takes
only so many ahead; then the node waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from handrail.core.errors import BusError, MissingExtra
from handrail.core.timeouts import time_limit
from handrail.http import HttpAddress
from handrail.node.bus.stream_frame import ERROR, StreamFrame
from handrail.node.bus.wire_codes import WIRE
from handrail.node.http.http_call import HttpCall
from handrail.node.http.link_loss import PROXIES, LinkLost, SocketsUnsupported, error_of_answer

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection
    from websockets.frames import Close

SUBPROTOCOL = "hearthnet-bus.v2"
ACK_EVERY = 8
AHEAD = 256
"""Frames that lie here unread before the node is made to wait."""
ALIVE = 30.0
"""Seconds of silence after which the node is told that somebody still listens."""
LARGEST = 16 * 1024 * 1024
_CLOSE = 1.0
_POLICY = 1008
_BY_EVENTS = frozenset({404, 405, 426, 501, 503})
"""Answers of a node that has no sockets, or none left."""
_JSON = msgspec.json.Encoder()
_SILENT = logging.Logger("websockets", logging.CRITICAL + 1)
"""Silences a library that, at its most verbose, logs headers and messages with tokens."""


class SocketSettings(NamedTuple):
    """The addresses of sockets, and how they are kept open."""

    address: HttpAddress
    tls: ssl.SSLContext | None
    connect: float
    alive: float


class _Message(msgspec.Struct):
    """What a node sends; without an event it is no frame but word of something that it did not take."""

    event: str = ""
    data: dict[str, Any] = {}
    seq: int = 0


_READ = msgspec.json.Decoder(_Message)


class SocketLink:
    def __init__(self, connection: ClientConnection, alive: float) -> None:
        self._connection = connection
        self._alive = alive
        self._frames: asyncio.Queue[StreamFrame | LinkLost] = asyncio.Queue(AHEAD)
        self._pump = asyncio.create_task(self._take())

    @classmethod
    async def open(cls, at: SocketSettings, ask: HttpCall, attempt: int, after: int) -> SocketLink:
        """Connect, and send the call, or take it up after a frame.

        Raises:
            LinkLost, SocketsUnsupported, BusError: As `FrameLink.next`.
        """
        from websockets.exceptions import ConnectionClosed

        message = ask.message(attempt, after)
        connection = await _connected(at, ask, len(message))
        try:
            await connection.send(message, text=True)
        except ConnectionClosed as error:
            raise LinkLost(f"the socket closed before the call was sent: {error}") from error
        except BaseException:
            connection.transport.abort()
            raise
        return cls(connection, at.alive)

    async def next(self) -> StreamFrame:
        found = await self._frames.get()
        if isinstance(found, LinkLost):
            self._frames.put_nowait(found)  # whoever asks again is told again
            raise found
        if found.event == ERROR and found.seq == 1 and found.data.get("transport") == "sse":
            raise SocketsUnsupported
        return found

    async def tool_result(self, tool_call_id: str, body: Any, is_error: bool) -> None:
        await self._say({"type": "tool_result", "tool_call_id": tool_call_id, "body": body, "is_error": is_error})

    async def cancel(self) -> bool:
        with contextlib.suppress(TimeoutError):  # who takes nothing for so long is told by the end of the socket
            async with time_limit(_CLOSE):
                await self._say({"type": "cancel"})
        return True

    async def close(self) -> None:
        self._pump.cancel()
        await asyncio.wait((self._pump,))
        await _closed(self._connection)

    async def _take(self) -> None:
        """Frames off the wire, until there are no more."""
        from websockets.exceptions import ConnectionClosed

        upto = 0
        try:
            while True:
                try:
                    async with time_limit(self._alive):
                        frame = _frame(await self._connection.recv(decode=False))
                except TimeoutError:
                    await self._ack(upto)
                    continue
                if frame is None:
                    continue
                upto = max(upto, frame.seq)
                await self._frames.put(frame)
                if frame.is_last:
                    return
                if upto % ACK_EVERY == 0:
                    await self._ack(upto)
        except ConnectionClosed as error:
            await self._frames.put(_closed_by(error.rcvd, upto))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            await self._frames.put(LinkLost("the node sent what is not a frame"))

    async def _ack(self, upto: int) -> None:
        await self._connection.send(_JSON.encode({"type": "ack", "upto": upto}).decode())

    async def _say(self, message: dict[str, Any]) -> None:
        from websockets.exceptions import ConnectionClosed

        with contextlib.suppress(ConnectionClosed):  # the reader learns of that, and what to do
            await self._connection.send(_JSON.encode(message).decode())


def _closed_by(said: Close | None, upto: int) -> StreamFrame | LinkLost:
    """What a socket that closes without a last frame means: where the node says that it does not know us, no more."""
    if said is not None and said.code == _POLICY and said.reason:
        error = BusError("unauthorized", said.reason, outcome="forbidden")
        return StreamFrame(ERROR, error.to_dict(), upto + 1)
    return LinkLost(f"the socket closed: {said or 'without a word'}")


def _frame(message: bytes | str) -> StreamFrame | None:
    read = _READ.decode(message)
    return StreamFrame(read.event, read.data, read.seq) if read.event else None


async def _connected(at: SocketSettings, ask: HttpCall, size: int) -> ClientConnection:
    """A socket on which a message of so many bytes will be sent first."""
    try:
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidHandshake, InvalidStatus
        from websockets.typing import Subprotocol
    except ImportError as error:
        raise MissingExtra("streams over WebSocket", "server") from error
    opening = connect(
        f"{'ws' if at.tls is None else 'wss'}://{at.address.authority}{at.address.target}",
        subprotocols=[Subprotocol(SUBPROTOCOL)],
        additional_headers=ask.opening(size),
        compression=None,
        logger=_SILENT,
        proxy=None,
        open_timeout=at.connect,
        close_timeout=_CLOSE,
        max_size=LARGEST,
        ssl=at.tls,
    )
    try:
        connection = await opening
    except InvalidStatus as error:
        status, body = error.response.status_code, bytes(error.response.body or b"")
        if status in PROXIES:
            raise LinkLost(f"something before the node answered {status}", sent=False) from error
        if status in _BY_EVENTS and not ask.terms.interactive:
            raise SocketsUnsupported from error
        raise _refused(status, body) from error
    except (OSError, InvalidHandshake, EOFError) as error:
        raise LinkLost(str(error) or type(error).__name__, sent=False) from error
    if connection.subprotocol != SUBPROTOCOL:
        await _closed(connection)
        raise BusError("not_implemented", f"the node does not speak {SUBPROTOCOL}", local="version_unsupported")
    return connection


def _refused(status: int, body: bytes) -> BusError:
    """`upgrade_refused`, with the code of the node where it gave one."""
    found = error_of_answer(status, body)
    code = "not_implemented" if status in (404, 405, 426) else found.code
    return BusError(
        code if code in WIRE else "internal_error",
        found.message,
        retry_after_ms=found.retry_after_ms,
        **{**found.details, "local": "upgrade_refused"},
    )


async def _closed(connection: ClientConnection) -> None:
    """Say goodbye for a moment; who does not answer is left."""
    try:
        async with time_limit(_CLOSE):
            await connection.close()
    except TimeoutError:
        pass
    finally:
        connection.transport.abort()  # also where whoever closes it is cancelled; what is closed does not mind
