"""Sockets that keep to themselves what is said on them: uvicorn's write headers and messages into the log, if asked."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class QuietSockets(WebSocketsSansIOProtocol):
    """A token is in a header or in the first message, and neither is for a log."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn.debug = False
