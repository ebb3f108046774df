"""A stream as server-sent events: frames that are ready go out in one piece."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

import msgspec
from starlette.types import Receive, Scope, Send

from handrail.core.errors import BusError
from handrail.node.bus.stream_frame import ERROR
from handrail.node.server.json_responses import PLAIN, error_response
from handrail.node.server.stream_replay import EncodedFrame, ReplayReader

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),  # a proxy that collects a stream defeats it
    *PLAIN,
]
REQUEST_ID = b"x-hearthnet-request-id"
"""By which who was cut off finds its call again."""
_ALIVE = b": still there\n\n"


def encode_server_sent_events(frames: Iterable[EncodedFrame]) -> bytes:
    """Frames as they stand on the wire."""
    return b"".join(
        [b"event: %b\nid: %d\ndata: %b\n\n" % (each.event.encode(), each.seq, each.data) for each in frames]
    )


class BusEventStream:
    """The answer to one request: what its reader reads, until the last frame or until the client is gone."""

    def __init__(self, reader: ReplayReader, *, keep_alive: float) -> None:
        self._reader = reader
        self._headers = [*_HEADERS, (REQUEST_ID, reader.running.key.call_id.encode())]
        self._keep_alive = keep_alive
        self._gone = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watching = asyncio.create_task(self._watch(receive))
        try:
            first = await self._reader.read(seconds=self._keep_alive)
            if self._gone:
                return
            if first and first[0].event == ERROR and first[0].seq == 1:
                # Nothing was sent yet, so that the status can say it.
                await error_response(BusError.from_dict(msgspec.json.decode(first[0].data)))(scope, receive, send)
                return
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            await self._write(first, send)
        except OSError:
            self._gone = True
        finally:
            self._reader.close()
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    async def _write(self, frames: list[EncodedFrame], send: Send) -> None:
        while not self._gone:
            last = bool(frames) and frames[-1].last
            body = encode_server_sent_events(frames) if frames else _ALIVE
            # A client that takes nothing is cut off by `handrail.http.uvicorn_server`, and then gone.
            await send({"type": "http.response.body", "body": body, "more_body": not last})
            if last:
                return
            frames = await self._next()

    async def _next(self) -> list[EncodedFrame]:
        try:
            return await self._reader.read(seconds=self._keep_alive)
        except BusError as error:
            return [EncodedFrame(self._reader.at + 1, ERROR, msgspec.json.encode(error.to_dict()), True)]

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._reader.close()
