"""WebSockets that log nothing of what is sent on them, and buffer no more than there is room for.

uvicorn's write headers and messages into the log, if asked; and each of them takes a message of any form, from anybody.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from handrail.http.request_guard import SMALL, RequestMemory
from handrail.http.uvicorn_server import SlowReaderProtocol
from handrail.node.server.admission import IDENTIFIED

PARTS = 1_024
"""The most parts of a message; each costs more than the bytes that it holds."""
PROTOCOL, STRANGER, TOO_LARGE, LATER = 1002, 1008, 1009, 1013
LINGER = 0.5
"""Seconds in which what a refused client still sends is read and dropped: who is cut off at once often does not see
why."""


class BoundedSocketProtocol(SlowReaderProtocol, WebSocketsSansIOProtocol):
    """A token is in a header or in the first message, and neither is for a log."""

    room: RequestMemory
    """The room for the messages of all sockets that are being read."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn.debug = False
        self._place = self.room.place()
        self._identified = False
        self._refused = False
        self._unread = 0
        """Bytes of messages that the application has not taken yet."""

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == 101:
            self.scope["extensions"][IDENTIFIED] = {"admit": self.identified}

    def identified(self) -> None:
        """The client said who it is, and is known: its messages may be large."""
        self._identified = True

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return None
        super().data_received(data)
        if not self.close_sent:
            self._bear(self._buffered)
        elif self._buffered > SMALL:  # only the client's own goodbye is still of interest, and it is short
            self._refused = True
            self._forget()
        return None

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= PARTS:
            return self._refuse(TOO_LARGE, f"a message may have {PARTS:,} parts")
        return super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        size = sum(map(len, self.frames))
        if self._refused or not self._bear(size):
            return
        self._unread += size
        super().send_receive_event_to_app()

    async def receive(self) -> Any:
        message = await super().receive()
        if self.queue.empty():
            self._unread = 0
            self._place.hold(self._buffered)
        return message

    def handle_parser_exception(self) -> None:
        said = self.conn.close_sent
        self._close(*((said.code, said.reason) if said is not None else (PROTOCOL, "")))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()

    @property
    def _buffered(self) -> int:
        return len(self.conn.reader.buffer) + sum(map(len, self.frames))

    def _bear(self, size: int) -> bool:
        """Whether so many bytes of a message may be held; if not, the socket is closed and holds nothing."""
        if size > SMALL and not self._identified:
            self._refuse(STRANGER, f"send a token when you open the socket; before, {SMALL:,} bytes are read")
        elif not self._place.hold(size + self._unread):
            self._refuse(LATER, "too many large messages are being read")
        return not self._refused

    def _refuse(self, code: int, why: str) -> None:
        if self.close_sent or self.transport.is_closing():
            return
        self.conn.fail(code, why)
        self._close(code, why)

    def _close(self, code: int, why: str) -> None:
        self._refused = self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": why})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self._forget()
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        if self.close_timer is None:  # it also keeps uvicorn from closing the connection with the end of the call
            self.close_timer = self.loop.call_later(LINGER, self.transport.close)

    def _forget(self) -> None:
        """Free what was read: objects of a connection that is over are in a cycle, and live until it is collected."""
        self.frames = []
        self.conn.reader.discard()
        self._unread = 0
        self._place.leave()


def socket_protocol_for(room: RequestMemory, write: float) -> type[BoundedSocketProtocol]:
    """Sockets that share a room."""

    class Sharing(BoundedSocketProtocol):
        write_seconds = write

    Sharing.room = room
    return Sharing
