"""The bytes of a good reply into wire events, strictly: whatever cannot be read is an error, and nothing is skipped.

Pure. `frames` finds where an event begins and ends; here it becomes JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from handrail.core.errors import ProtocolError
from handrail.core.jsontext import JSONTextError, kind_of, parse, parse_lightly
from handrail.models.codec import Framing
from handrail.models.frames import (
    MAX_FRAME,
    DocumentOrEvents,
    FrameParser,
    JsonFrames,
    NdjsonFrames,
    ReplyFrame,
    SseFrames,
)
from handrail.models.repeated_events import PieceOf, ShapeLearner
from handrail.models.service_errors import HEAD, masked_excerpt

MAX_REPLY = 256 * 1024 * 1024
DONE = b"[DONE]"
"""What OpenAI's stream ends with, and those of its likes."""

_FRAMES: Mapping[str, type[SseFrames | NdjsonFrames | JsonFrames]] = {
    "sse": SseFrames,
    "ndjson": NdjsonFrames,
    "json": JsonFrames,
}
_SAID: Mapping[str, str] = {
    "text/event-stream": "sse",
    "application/x-ndjson": "ndjson",
    "application/jsonl": "ndjson",
}
_PAGES = ("text/html", "application/xhtml+xml")
_ARGUMENTS = re.compile(rb'"(?:arguments|input|args)"\s*:\s*\{')
"""The place in an event of the arguments of a call as an object."""
_BREAK = b"\n\n"
"""The break between two events, where lines end as nearly everywhere."""
_KEPT = 20 * HEAD
"""Bytes to show the beginning from: enough that a key at its end is masked whole."""


class WireEvent(Struct, frozen=True):
    data: dict[str, Any]
    event: str = ""
    """The name that SSE gave it, if any."""
    texts: Sequence[str] = ()
    """If there are any, these are events that differ from the last one only in their text, and the rest is empty."""


END = WireEvent({}, DONE.decode())
"""The service has said that this was all."""


class WireReader:
    """Fed the bytes of one reply as they come."""

    def __init__(
        self,
        framing: Framing,
        media_type: str = "",
        *,
        exact: bool = True,
        piece_of: PieceOf | None = None,
        secrets: Sequence[str] = (),
        largest: int = MAX_FRAME,
        longest: int = MAX_REPLY,
    ) -> None:
        self._frames = _frames_for(framing, media_type.lower(), largest)
        self._largest = largest
        self._alike = None if piece_of is None else ShapeLearner(piece_of, partial(_one_event, largest, exact))
        self._media_type = media_type
        self._is_page = media_type.lower() in _PAGES
        self._exact = exact
        self._secrets = secrets
        self._longest = longest
        self._size = 0
        self._count = 0
        self._head = bytearray()
        self.done = False
        """The service has said that this was all."""

    def feed(self, chunk: bytes) -> Iterator[WireEvent]:
        """The events that are whole now.

        Raises:
            ProtocolError: The bytes are no events, or there are too many of them.
        """
        if len(self._head) < _KEPT:
            self._head += chunk[: _KEPT - len(self._head)]
        self._size += len(chunk)
        if self._size > self._longest:
            raise ProtocolError(f"the reply is larger than {self._longest} bytes; ask for less")
        if self._is_page or self.done:
            return iter(())  # a page in place of a reply: `finish` shows how it begins
        if self._alike is not None and self._alike.learns and isinstance(self._frames, SseFrames):
            return self._events_alike(chunk, self._alike, self._frames)
        return self._events(self._frames.feed(chunk))

    def finish(self) -> Iterator[WireEvent]:
        """The bytes have ended.

        Raises:
            ProtocolError: In the middle of an event, or there was none.
        """
        if self.done:
            return
        if not self._is_page:
            yield from self._events(self._frames.finish())
        if not self._count:
            raise self._unreadable("the service answered with nothing that can be read")

    def _events(self, frames: Iterator[ReplyFrame]) -> Iterator[WireEvent]:
        try:
            for frame in frames:
                data = frame.data.strip()
                if data == DONE:
                    self.done = True
                    yield END
                if self.done:
                    return
                if not data:
                    continue  # it keeps the connection alive
                event = WireEvent(_object(data, self._exact), frame.event)
                self._count += 1
                yield event
        except ProtocolError as error:
            wrong = error if self._count else self._unreadable(str(error))
        else:
            return
        raise wrong

    def _events_alike(self, chunk: bytes, alike: ShapeLearner, frames: SseFrames) -> Iterator[WireEvent]:
        """Reads events like `_events`, so that what is known of one helps to read the next."""
        at = 0
        while at < len(chunk) and not self.done:
            if alike.shape is not None and frames.is_between:
                texts, at = alike.shape.texts(chunk, at, self._largest)
                if texts:
                    alike.was_used()
                    self._count += len(texts)
                    yield WireEvent({}, texts=texts)
            end = chunk.find(_BREAK, at) + len(_BREAK)
            event = chunk[at:end] if alike.learns and end >= len(_BREAK) else chunk[at:]
            at += len(event)
            whole = frames.is_between
            for read in self._events(frames.feed(event)):
                yield read
                alike.shape = None
                if whole and frames.is_between:
                    alike.learn(event, read.data)

    def _unreadable(self, why: str) -> ProtocolError:
        begins = masked_excerpt(self._head.decode(errors="replace"), HEAD, secrets=self._secrets)
        kind = self._media_type[:HEAD] or "no media type"
        return ProtocolError(f"{why} ({kind}, {f'begins: {begins}' if begins else 'empty'})")


def _frames_for(framing: Framing, media_type: str, largest: int) -> FrameParser:
    """Chooses the parser: the media type of the answer wins over the framing that was requested."""
    said = _SAID.get(media_type, framing)
    if media_type == "application/json" and framing == "sse":
        return DocumentOrEvents(largest)
    return _FRAMES[said](largest)


def _one_event(largest: int, exact: bool, event: bytes) -> dict[str, Any] | None:
    try:
        (frame,) = SseFrames(largest).feed(event)
        return _object(frame.data, exact)
    except (ProtocolError, ValueError):
        return None


def _object(data: bytes, exact: bool) -> dict[str, Any]:
    """The event. Where it holds arguments, it is read as strictly as arguments are."""
    try:
        value = parse(data, max_size=len(data)) if exact and _ARGUMENTS.search(data) else parse_lightly(data)
    except JSONTextError as error:
        raise ProtocolError(f"an event of the reply is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ProtocolError(f"an event of the reply is not a JSON object but {kind_of(value)}")
    return value
