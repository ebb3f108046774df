"""What was sent on the streams of one session, so that a client whose connection broke can have the rest.

It is kept in memory and bounded. A client that comes back too late for an event is told nothing of it; the
call's own answer is in the journal as ever.
"""

from __future__ import annotations

from collections import deque
from itertools import count

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp_types import JSONRPCMessage

EVENTS = 1_000
BYTES = 4 * 1024 * 1024


class SessionEventStore(EventStore):
    """One per session: streams are named by request ids, and those of another session have the same names."""

    def __init__(self, *, events: int = EVENTS, size: int = BYTES) -> None:
        self._kept: deque[tuple[int, str, JSONRPCMessage | None, int]] = deque()
        self._numbers = count(1)
        self._events = events
        self._size = size
        self._held = 0

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        number = next(self._numbers)
        size = 0 if message is None else len(message.model_dump_json())
        self._kept.append((number, stream_id, message, size))
        self._held += size
        while self._kept and (len(self._kept) > self._events or self._held > self._size):
            self._held -= self._kept.popleft()[3]
        return str(number)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        after = int(last_event_id) if last_event_id.isdecimal() and len(last_event_id) < 20 else 0
        stream = next((stream for number, stream, _, _ in self._kept if number == after), None)
        if stream is None:
            return None
        for number, other, message, _ in tuple(self._kept):
            if number > after and other == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream
