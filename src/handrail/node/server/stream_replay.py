"""Streams that outlive their connection for a moment: a client that was cut off reads on from where it was.

A `ReplayableStream` reads the bus, keeps the last frames as they go over the wire, and has any number of readers.
When the last of them leaves, the call is cancelled unless one comes back in time. It goes as far ahead as
its foremost reader lets it, so that a slow client slows the capability down and not the node.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.errors import BusError
from handrail.core.redact import Secret
from handrail.core.timeouts import time_limit
from handrail.node.bus.interfaces import CallStream
from handrail.node.bus.request import Caller
from handrail.node.bus.stream_frame import ERROR, StreamFrame
from handrail.node.server.lifecycle import NodeLifecycle

AHEAD = 64
"""Frames that are read from the bus before anybody has taken them."""
AHEAD_BYTES = 1024 * 1024
"""The bytes of unread frames after which no more are read."""
MAX_BYTES = 8 * 1024 * 1024
"""The most bytes of frames that are kept of one stream."""
ENDED = 256
"""Streams that have ended and can still be read."""
ENDED_BYTES = 64 * 1024 * 1024
"""The most bytes of frames of all ended streams."""

_encode = msgspec.json.Encoder().encode


class CallKey(NamedTuple):
    """The owner of a call: nobody else finds it, whatever id they send."""

    holder: str
    call_id: str

    @classmethod
    def of(cls, caller: Caller, token: Secret | None, call_id: str) -> CallKey:
        return cls(f"{caller.id} {hashlib.sha256((token or '').encode()).hexdigest()}", call_id)


class EncodedFrame(NamedTuple):
    """A frame as it goes over the wire; `data` is JSON on one line."""

    seq: int
    event: str
    data: bytes
    last: bool


def encode_frame(frame: StreamFrame) -> EncodedFrame:
    """A frame, encoded once for whoever reads it."""
    if frame.event.isprintable():  # a line break would end the line that it stands on
        with contextlib.suppress(UnicodeEncodeError, TypeError, ValueError):
            return EncodedFrame(frame.seq, frame.event, _encode(frame.data), frame.is_last)
    error = BusError("internal_error", "a frame of this stream has no form on the wire")
    return EncodedFrame(frame.seq, ERROR, _encode(error.to_dict()), True)


class ReplayableStream:
    """One call that streams, from its first frame until nobody can ask for it any more."""

    def __init__(self, key: CallKey, stream: CallStream, life: NodeLifecycle, *, frames: int, linger: float) -> None:
        self.key = key
        self.stream = stream
        self.asked = b""
        """A digest of what was asked, so that an id stands for one call."""
        self.ended = False
        self._life = life
        self._linger = linger
        self._most = max(frames, AHEAD)
        self._frames: deque[EncodedFrame] = deque()
        self.size = 0
        """Bytes that are kept."""
        self._came = 0
        """Bytes that came, kept or not."""
        self._readers: set[ReplayReader] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._room: asyncio.Future[None] | None = None
        self._hurry = False
        self._ending: asyncio.Task[None] | None = None
        self.on_end: Callable[[ReplayableStream], None] = lambda running: None
        life.begin(self)
        self._task = asyncio.create_task(self._pump())

    @property
    def first(self) -> int:
        """The number of the oldest frame that is kept."""
        return self._frames[0].seq if self._frames else 1

    @property
    def newest(self) -> int:
        return self._frames[-1].seq if self._frames else 0

    def reader(self, after: int = 0) -> ReplayReader:
        """Reads what comes after a frame. Close it.

        Raises:
            BusError: Those frames are no longer kept, or were never sent (`not_found`).
        """
        if not self.first - 1 <= after <= self.newest:
            raise BusError("not_found", f"of this stream the frames {self.first} to {self.newest} are kept")
        missing = sum(len(frame.data) for frame in self.since(after, self.newest - after))
        reader = ReplayReader(self, after, self._came - missing)
        self._readers.add(reader)
        self._stay()
        self._advance()
        return reader

    def since(self, after: int, most: int) -> list[EncodedFrame]:
        """The frames after one that are there."""
        count = min(self.newest - after, most)
        if count <= 0:
            return []
        begin = after + 1 - self.first
        if begin < 0:
            why = f"the reader fell behind: the frames up to {self.first - 1} are gone, and the call goes on without it"
            raise BusError("partition", why, outcome="in_doubt")
        frames = self._frames
        return [frames[index] for index in range(begin, begin + count)]

    def end(self) -> None:
        """Cancel the call. Its readers get the `error` frame that says so."""
        if self.ended or self._ending is not None:
            return
        self._hurry = True
        self._advance()
        self._ending = asyncio.create_task(self.stream.cancel())

    def end_alone(self) -> None:
        """Cancel the call, unless somebody else reads it: who was cut off reads on elsewhere."""
        if not self._readers:
            self.end()

    def left(self, reader: ReplayReader) -> None:
        self._readers.discard(reader)
        if self._readers or self.ended:
            return
        if self._linger <= 0:
            self.end()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._linger, self.end)

    async def gone(self) -> None:
        """Wait until the bus has let go of it."""
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(self._task)

    def moved(self) -> None:
        """A reader has taken some."""
        self._advance()

    def _stay(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _pump(self) -> None:
        try:
            async with self.stream as frames:
                async for frame in frames:
                    self._keep(encode_frame(frame))
                    if self.ended:
                        break
                    if self._far_ahead():
                        await self._until_room()
        except BusError as error:
            self._fail(error)
        except Exception as error:
            self._fail(BusError("internal_error", f"the stream broke off: {type(error).__name__}"))
            raise
        finally:
            self._fail(BusError("cancelled", "the call ended early", outcome="cancelled"))
            self._stay()
            self._life.ended(self)
            self.on_end(self)

    def _fail(self, error: BusError) -> None:
        """A stream that ends in no other way ends in an error."""
        if not self.ended:
            self._keep(EncodedFrame(self.newest + 1, ERROR, _encode(error.to_dict()), True))

    def _keep(self, frame: EncodedFrame) -> None:
        self._frames.append(frame)
        self.size += len(frame.data)
        self._came += len(frame.data)
        taken = max((reader.at for reader in self._readers), default=self.newest - AHEAD)
        while len(self._frames) > self._most or (self.size > MAX_BYTES and self.first <= taken):
            self.size -= len(self._frames.popleft().data)
        self.ended = frame.last
        for reader in self._readers:
            reader.wake()

    def _far_ahead(self) -> bool:
        """Whether what nobody has taken yet is enough for now."""
        if self._hurry:
            return False
        frames = min((self.newest - reader.at for reader in self._readers), default=AHEAD)
        size = min((self._came - reader.taken for reader in self._readers), default=AHEAD_BYTES)
        return frames >= AHEAD or size >= AHEAD_BYTES

    async def _until_room(self) -> None:
        self._room = asyncio.get_running_loop().create_future()
        await self._room

    def _advance(self) -> None:
        if self._room is not None and not self._room.done() and not self._far_ahead():
            self._room.set_result(None)


class ReplayReader:
    """One connection's place in a stream."""

    def __init__(self, running: ReplayableStream, after: int, taken: int) -> None:
        self.running = running
        self.at = after
        """The last frame that was taken."""
        self.taken = taken
        """The bytes of the stream up to it."""
        self._waiting: asyncio.Future[None] | None = None

    async def read(self, *, most: int = AHEAD, seconds: float | None = None) -> list[EncodedFrame]:
        """The next frames, at least one; or none when `seconds` have passed, or the stream is over.

        Raises:
            BusError: It fell so far behind that the next one is gone (`partition`).
        """
        found = self.running.since(self.at, most)
        if not found and not self.running.ended:
            await self._news(seconds)
            found = self.running.since(self.at, most)
        if found:
            self.at = found[-1].seq
            self.taken += sum(len(frame.data) for frame in found)
            self.running.moved()
        return found

    def wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def close(self) -> None:
        """Leave. Without another reader the call ends after a while."""
        self.running.left(self)
        self.wake()

    async def _news(self, seconds: float | None) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        with contextlib.suppress(TimeoutError):
            async with time_limit(seconds):
                await self._waiting


class ReplayStore:
    """The streams of a node, by whose they are."""

    def __init__(self, life: NodeLifecycle, *, frames: int, linger: float, kept_seconds: float) -> None:
        self._life = life
        self._frames = frames
        self._linger = linger
        self._kept_seconds = kept_seconds
        self._running: dict[CallKey, ReplayableStream] = {}
        """Those that have ended are among them for as long as `_ended` has them."""
        self._ended = BoundedMemory[CallKey, ReplayableStream](
            ENDED,
            weight=lambda stream: stream.size,
            most_weight=ENDED_BYTES,
            keep_newest=True,
            on_forget=lambda key, stream: self._forget(stream),
        )

    def find(self, key: CallKey) -> ReplayableStream | None:
        return self._running.get(key)

    def start(self, key: CallKey, make: Callable[[], CallStream], asked: bytes = b"") -> ReplayableStream:
        """The stream of that id, which is started unless it runs.

        Raises:
            BusError: The id stands for another call (`bad_request`); or no more are begun (`partition`).
        """
        running = self._running.get(key)
        if running is None:
            self._life.check()
            running = self._running[key] = ReplayableStream(
                key, make(), self._life, frames=self._frames, linger=self._linger
            )
            running.asked = asked
            running.on_end = self._forget_later
        elif running.asked != asked:
            raise BusError("bad_request", "that request id was used for another call; take a new one")
        return running

    def _forget_later(self, running: ReplayableStream) -> None:
        asyncio.get_running_loop().call_later(self._kept_seconds, self._forget, running)
        self._ended[running.key] = running

    def _forget(self, running: ReplayableStream) -> None:
        if self._running.get(running.key) is running:
            del self._running[running.key]
            self._ended.pop(running.key, None)
