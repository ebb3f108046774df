"""A browser without a network: it calls an ASGI application, reads streams as they come, and may leave early."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp, Message


class BrowserStream:
    """A response that is being read."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.raw = b""
        self.gone = asyncio.Event()
        self._came = asyncio.Event()
        self._read = 0
        self._over = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {key.decode(): value.decode() for key, value in message["headers"]}
        else:
            self.raw += message.get("body", b"")
            self._over = not message.get("more_body", False)
        self._came.set()

    async def ended(self) -> bytes:
        while not self._over:
            await self._next()
        return self.raw

    async def block(self) -> str | None:
        """The next block of the stream, which a blank line ends; None at the end."""
        while b"\n\n" not in self.raw[self._read :]:
            if self._over:
                return None
            await self._next()
        end = self.raw.index(b"\n\n", self._read)
        found, self._read = self.raw[self._read : end], end + 2
        return found.decode()

    async def event(self) -> dict[str, Any] | None:
        """The next event, with its id; None at the end."""
        while (block := await self.block()) is not None:
            fields = dict(line.partition(": ")[::2] for line in block.splitlines())
            if "data" in fields:
                return {"n": int(fields["id"]), **json.loads(fields["data"])}
        return None

    async def until(self, type: str) -> dict[str, Any]:
        """The next event of a type."""
        while (event := await self.event()) is not None:
            if event["type"] == type:
                return event
        raise AssertionError(f"the stream ended without {type!r}: {self.raw.decode()}")

    async def rest(self) -> list[dict[str, Any]]:
        found = []
        while (event := await self.event()) is not None:
            found.append(event)
        return found

    async def _next(self) -> None:
        self._came.clear()
        await asyncio.wait_for(self._came.wait(), 60)


class Browser:
    def __init__(self, app: ASGIApp, user: str = "ada") -> None:
        self._app = app
        self._user = user

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, body: Any = None, *, last_event: int | None = None
    ) -> AsyncIterator[BrowserStream]:
        """Leaving the block goes away, as a closed tab does."""
        headers = [(b"x-user", self._user.encode()), (b"content-type", b"application/json")]
        if last_event is not None:
            headers.append((b"last-event-id", str(last_event).encode()))
        where = {"path": path, "raw_path": path.encode(), "query_string": b"", "root_path": ""}
        scope = {"type": "http", "http_version": "1.1", "method": method, "headers": headers, "scheme": "http", **where}
        stream = BrowserStream()
        asked: list[Message] = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

        async def receive() -> Message:
            if asked:
                return asked.pop()
            await stream.gone.wait()
            return {"type": "http.disconnect"}

        answering = asyncio.ensure_future(self._app(scope, receive, stream.send))
        try:
            while not stream.status and not answering.done():
                await asyncio.wait({answering}, timeout=0.01)
            yield stream
        finally:
            stream.gone.set()
            await answering

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the JSON of a response that is not streamed."""
        async with self.stream(method, path, body) as stream:
            return stream.status, json.loads(await stream.ended())
