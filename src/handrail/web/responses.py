"""Events as a streamed response of Starlette or FastAPI. Only what serves imports it, since it imports starlette."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import suppress

from handrail.core.errors import MissingExtra
from handrail.core.events import CallRequested, Event, TextDelta
from handrail.core.ids import new_id
from handrail.web.errors import WebSessionError
from handrail.web.events import WebEvent, browser_event, failure
from handrail.web.kept_session import WebSessionEvents

try:
    from starlette.datastructures import Headers
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.types import Receive, Scope, Send
except ImportError as error:
    raise MissingExtra("streaming to a browser", "web") from error

from handrail.http.event_stream import EventStreamResponse, FramePipe

logger = logging.getLogger(__name__)

_AHEAD = 64 * 1024
"""Bytes by which the events may be ahead of the browser."""
_ALIVE = b": still there\n\n"
_WRITE_SECONDS = 30.0
_RETRY = b"retry: 1000\n\n"
"""Milliseconds after which a browser that was cut off comes back."""
_unread: set[asyncio.Task[None]] = set()
"""Turns that go on although their browser is gone."""


def sse(
    events: WebSessionEvents | AsyncIterable[Event],
    *,
    keep_alive: float = 15.0,
    cancel_on_disconnect: bool = False,
    reasoning: bool = False,
) -> Response:
    """A response that streams events to a browser as server-sent events.

    return sse(session.stream_async(prompt))

    Args:
        events: Those of a `WebSession`, or the stream of a `Session`.
        keep_alive: Seconds of silence after which a comment is sent, so that no proxy closes the stream.
        cancel_on_disconnect: Whether the run of a `Session` is cancelled when the browser goes away. Else it goes on to
            its end. The turn of a `WebSession` goes on in any case, until it is cancelled.
        reasoning: Whether the browser is told what the model thinks aloud, of a stream of a `Session`.
    """
    return _BrowserStream(events, keep_alive, cancel_on_disconnect, reasoning)


async def error_response(request: Request, error: Exception) -> Response:
    """The response to a request that cannot be served: `app.add_exception_handler(WebSessionError, error_response)`."""
    if not isinstance(error, WebSessionError):
        raise error
    return JSONResponse({"error": error.code, "message": str(error)}, status_code=error.status)


class _BrowserStream(EventStreamResponse):
    def __init__(
        self, events: WebSessionEvents | AsyncIterable[Event], keep_alive: float, cancel: bool, reasoning: bool
    ) -> None:
        self._frames = FramePipe(_AHEAD)
        self._frames.push(_RETRY)
        super().__init__(self._left, self._frames, _ALIVE, {}, keep_alive=keep_alive, write_seconds=_WRITE_SECONDS)
        kept = isinstance(events, WebSessionEvents)
        self._events = events
        self._told = aiter(events) if isinstance(events, WebSessionEvents) else _numbered(events, reasoning)
        self._is_kept = kept
        self._ends_with_reader = kept or cancel
        self._is_read = True
        self._pump: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._is_kept and "last-event-id" in Headers(scope=scope):
            # A browser's EventSource comes back after the end of a stream. The prompt must not be asked again: this
            # status tells it to stay away. The run of a `Session` has not begun, for nobody has read its events.
            return await Response(status_code=204)(scope, receive, send)
        self._pump = asyncio.create_task(self._fill())
        await super().__call__(scope, receive, send)

    async def _fill(self) -> None:
        try:
            async for event in self._told:
                if self._is_read:
                    await self._frames.put(event.to_sse())
        finally:
            self._frames.close()
            close = getattr(self._events, "aclose", None)
            if close is not None:
                await close()

    async def _left(self) -> None:
        """The browser is gone, or has everything."""
        self._is_read = False
        self._frames.take()  # whoever waits for room goes on
        pump = self._pump
        assert pump is not None
        if pump.done():
            return
        if self._ends_with_reader:
            pump.cancel()
            with suppress(asyncio.CancelledError):
                await pump
        else:
            _unread.add(pump)
            pump.add_done_callback(_unread.discard)


async def _numbered(events: AsyncIterable[Event], reasoning: bool) -> AsyncIterator[WebEvent]:
    """The events of a run, as a browser is told them; the last says how it ended."""
    n, said = 0, list[str]()
    end = "done"
    try:
        async for event in events:
            if isinstance(event, TextDelta):
                said.append(event.text)
            elif isinstance(event, CallRequested):
                said.clear()
            told = browser_event(event)
            if told is not None and (reasoning or told[0] != "reasoning"):
                n += 1
                yield WebEvent(n=n, type=told[0], data=told[1])
        data = {"text": "".join(said)}
    except Exception as error:
        code, words = failure(error)
        reference = new_id("failure")
        logger.error("a streamed run failed (%s)", reference, exc_info=error)
        end, data = "failed", {"code": code, "message": words, "reference": reference}
    yield WebEvent(n=n + 1, type=end, data=data)
