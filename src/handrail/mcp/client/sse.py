"""Streams of server-sent events, cut so that no event is too large or too dense for who reads it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable

import httpx2

from handrail.mcp.client.failures import TransportFault
from handrail.mcp.client.wire import UnreadableLine, mend_message, too_dense, too_long, too_many_values

_BOUNDARY = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n|\r\n\n")
_LONGEST_BOUNDARY = 4
_DATA = re.compile(rb"^data: ?([^\r\n]*)", re.MULTILINE)


class BoundedEventStream(httpx2.AsyncByteStream):
    """Passes a stream on event by event. One that cannot be passed on is replaced, and is the last."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int, replace: Callable[[TransportFault], bytes]) -> None:
        self._inner = inner
        self._limit = limit
        self._replace = replace
        """A message that says why, as JSON."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pending, searched = bytearray(), 0
        async for chunk in self._inner:
            pending += chunk
            passed = 0
            while (found := _BOUNDARY.search(pending, max(searched, passed))) is not None:
                event = self._passed(bytes(pending[passed : found.end()]))
                if isinstance(event, TransportFault):
                    yield self._last(event)
                    return
                if event:
                    yield event
                passed = searched = found.end()
            del pending[:passed]
            searched = max(0, len(pending) - _LONGEST_BOUNDARY + 1)
            if len(pending) > self._limit:
                yield self._last(too_long(self._limit))
                return
        if pending:
            yield bytes(pending)

    def _passed(self, event: bytes) -> bytes | TransportFault:
        if len(event) > self._limit:
            return too_long(self._limit)
        data = _DATA.findall(event)
        if len(data) != 1 or not data[0]:
            return too_dense() if too_many_values(event) else event
        try:
            read = mend_message(data[0])
        except UnreadableLine:
            return b""  # nobody waits for it
        if isinstance(read, TransportFault):
            return read
        return event if read is data[0] else event.replace(data[0], read)

    def _last(self, fault: TransportFault) -> bytes:
        return b"event: message\ndata: " + self._replace(fault) + b"\n\n"

    async def aclose(self) -> None:
        await self._inner.aclose()
