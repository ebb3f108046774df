"""Sockets that keep to themselves what is said on them, and take no more than there is room for.

uvicorn's write headers and messages into the log, if asked; and each of them takes a message of any form.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from handrail.http.room import Room
from handrail.http.serving import Taken

PARTS = 1_024
"""That a message may come in; each costs more than the bytes that it holds."""
TOO_LARGE, LATER = 1009, 1013


class QuietSockets(Taken, WebSocketsSansIOProtocol):
    """A token is in a header or in the first message, and neither is for a log."""

    room: Room
    """For the messages of all sockets that are being read."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn.debug = False
        self._place = self.room.place()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.close_sent:  # what comes now is dropped
            return self._place.leave()
        if not self._place.hold(len(self.conn.reader.buffer) + sum(map(len, self.frames))):
            self._refuse(LATER, "too many large messages are being read")
        return None

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= PARTS:
            return self._refuse(TOO_LARGE, f"a message may have {PARTS:,} parts")
        return super().handle_cont(event)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._place.leave()

    def _refuse(self, code: int, why: str) -> None:
        if self.close_sent or self.transport.is_closing():
            return
        self.frames = []
        self._place.leave()
        self.conn.fail(code, why)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.transport.close()


def sockets(room: Room, write: float) -> type[QuietSockets]:
    """Sockets that share a room."""

    class Sharing(QuietSockets):
        write_seconds = write

    Sharing.room = room
    return Sharing
