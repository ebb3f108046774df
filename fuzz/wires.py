"""Replies of services: bytes to frames to events, and what the six native decoders make of those.

The laws: a reply ends in `ReplyFinished` or in a `ModelError`; calls are whole, with
names and ids of their own; how the bytes were cut tells in nothing; and a stream that
breaks off gives no call that the whole one does not have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from functools import cache
from typing import Any

import msgspec
from hypothesis import strategies as st

from fuzz.law import Target, outcome
from fuzz.mutate import cuts, data, pieces_of, values
from handrail.core.calls import ToolCall
from handrail.core.errors import ModelError, ProtocolError
from handrail.core.events import CallRequested, ModelEvent, ReplyFinished
from handrail.models.bedrock.transport import BedrockTransport
from handrail.models.codec import Framing, WireRequest
from handrail.models.frames import FrameParser, JsonFrames, NdjsonFrames, SseFrames
from handrail.models.reply_checks import ReplyChecker
from handrail.models.transport import Endpoint
from handrail.models.wire_events import WireEvent, WireReader
from tests.hostile.reply_corpus import CorpusStream, of_wires
from tests.hostile.reply_outcomes import ASKED, CODECS, numbered
from tests.models.bedrock.botocore_checks import event_bytes
from tests.wires.wire_dialogue import ScriptedReply, WireCall, WireCase
from tests.wires.wire_table import WIRES

SAID = (
    ScriptedReply("Hello, wörld."),
    ScriptedReply("", (WireCall("id_1", "weather", {"city": "Oslo"}),)),
    ScriptedReply(
        "Both:",
        (WireCall("id_1", "weather", {"city": "Oslo"}), WireCall("id_2", "send", {"to": "ada", "text": 'a\n"b"'})),
    ),
)
NAMES = {"openai_chat": "openai", "openai_responses": "openai-responses"}
FRAMES: dict[str, type[FrameParser]] = {"sse": SseFrames, "ndjson": NdjsonFrames, "json": JsonFrames}
KINDS = ("", "text/event-stream", "application/json", "application/x-ndjson", "text/html")


def golden(name: str) -> list[list[dict[str, Any]]]:
    """Replies as the service writes them, streamed and in one piece."""
    wire: WireCase = WIRES[NAMES.get(name, name)]
    return [wire.write(said, stream) for said in SAID for stream in (True, False)]


def hostile(name: str) -> list[CorpusStream]:
    return of_wires(*(wire for wire in CODECS if wire == name))


def framed(name: str, events: Iterable[dict[str, Any]]) -> bytes:
    """Events as bytes of the wire."""
    if name == "ollama":
        return b"".join(msgspec.json.encode(event) + b"\n" for event in events)
    lines = (b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events)
    return b"".join(lines) + (b"data: [DONE]\n\n" if name == "openai_chat" else b"")


def bytes_of(name: str) -> list[bytes]:
    return [*(framed(name, events) for events in golden(name)), *(stream.data for stream in hostile(name))]


def answer(name: str, events: Iterable[WireEvent]) -> tuple[list[ModelEvent], Any]:
    """All that was given out, and the error that ended it or None."""
    decoder, watch = CODECS[_wire(name)](new_id=numbered()).decoder(ASKED), ReplyChecker(ASKED)
    given: list[ModelEvent] = []
    try:
        for said in events:
            for each in decoder.feed(said.data, said.event):
                given.extend(watch.see(each))
        for each in decoder.finish():
            given.extend(watch.see(each))
        watch.close()
    except ModelError as error:
        return given, (type(error).__name__, str(error).partition(" (")[0])
    return given, None


def read(name: str, chunks: Sequence[bytes], kind: str = "") -> tuple[list[ModelEvent], Any]:
    framing: Framing = "ndjson" if name == "ollama" else "sse"

    def events() -> Iterable[WireEvent]:
        reader = WireReader(framing, kind)
        for chunk in chunks:
            yield from reader.feed(chunk)
        yield from reader.finish()

    return answer(name, events())


def check(given: list[ModelEvent], error: Any) -> None:
    """What holds for every reply."""
    ends = [event for event in given if isinstance(event, ReplyFinished)]
    assert len(ends) == (error is None), "a reply ends once, or in an error"
    assert not ends or given[-1] is ends[0], "nothing comes after the end"
    calls = calls_of(given)
    for call in calls:
        assert isinstance(call.name, str) and call.name, "a call has a name"
        assert isinstance(call.id, str) and call.id, "a call has an id"
        assert isinstance(call.arguments, str), "arguments are given on as they were written"
    assert len({call.id for call in calls}) == len(calls), "no two calls have one id"
    for event in given:
        msgspec.json.encode(msgspec.to_builtins(event))


def calls_of(given: Iterable[ModelEvent]) -> list[ToolCall]:
    return [event.call for event in given if isinstance(event, CallRequested)]


def _wire(name: str) -> Any:
    return name


def _decoder(name: str) -> Target:
    def law(events: Any) -> None:
        check(*answer(name, (WireEvent(event) for event in events if isinstance(event, dict))))

    return Target(f"decode-{name}", values([*golden(name), *_events(name)]), law)


def _events(name: str) -> list[list[dict[str, Any]]]:
    """Events of the hostile streams that can be read at all."""
    found = []
    for stream in hostile(name):
        if name != "bedrock":
            reader = WireReader("ndjson" if name == "ollama" else "sse", stream.kind)
            events = outcome(lambda: [said.data for said in (*reader.feed(stream.data), *reader.finish())], ModelError)  # noqa: B023
            found += [events] if isinstance(events, list) else []
    return found


def _bytes(name: str) -> Target:
    def law(value: tuple[bytes, list[int], str]) -> None:
        body, places, kind = value
        whole = read(name, [body], kind)
        check(*whole)
        assert read(name, pieces_of(body, places), kind) == whole, "how the bytes are cut tells in what comes of them"

    return Target(f"bytes-{name}", st.tuples(data(bytes_of(name)), cuts(), st.sampled_from(KINDS)), law)


def _broken_off(name: str) -> Target:
    """A stream that breaks off at any byte."""
    bodies = [framed(name, events) for events in golden(name)[::2]]

    def law(value: tuple[bytes, int]) -> None:
        body, place = value
        given, _ = read(name, [body[:place]])
        whole, error = read(name, [body])
        assert error is None
        calls = calls_of(given)
        assert calls == calls_of(whole)[: len(calls)], "a stream that breaks off gives no half call"

    return Target(f"broken-off-{name}", st.tuples(st.sampled_from(bodies), st.integers(0, 4000)), law)


def _aws() -> Target:
    """Amazon's frames are botocore's to read; whatever it makes of them is an error of ours, or events."""
    bodies = [b"".join(map(event_bytes, events)) for events in golden("bedrock")[::2]]

    async def events(body: bytes) -> list[WireEvent]:
        transport = BedrockTransport(lambda endpoint: _Client(body))
        sent = transport.send(WireRequest(path="/model/m/converse-stream", body={}), Endpoint("https://example.org"))
        async with aclosing(sent) as found:
            return [event async for event in found]

    def law(body: bytes) -> None:
        found = outcome(lambda: asyncio.run(events(body)), ModelError)
        if isinstance(found, list):
            check(*answer("bedrock", found))

    return Target("bytes-bedrock", data(bodies), law)


@cache
def _shape() -> Any:
    import botocore.session

    model = botocore.session.Session().get_service_model("bedrock-runtime").operation_model("ConverseStream")
    return model.output_shape.members["stream"]


class _Client:
    """A client of botocore's that has been answered with these bytes."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def converse_stream(self, **asked: Any) -> dict[str, Any]:
        from botocore.eventstream import EventStream
        from botocore.parsers import EventStreamJSONParser

        return {"stream": EventStream(self, _shape(), EventStreamJSONParser(), "ConverseStream")}

    def stream(self, amount: int = 1024) -> Iterable[bytes]:
        return pieces_of(self._body, [len(self._body) // 2])

    def close(self) -> None:
        self._body = b""


def _frames(framing: str, make: type[FrameParser]) -> Target:
    bodies = [body for name in CODECS if name != "bedrock" for body in bytes_of(name)]

    def frames(chunks: Sequence[bytes]) -> Any:
        found = make()
        return [*(frame for chunk in chunks for frame in found.feed(chunk)), *found.finish()]

    def law(value: tuple[bytes, list[int]]) -> None:
        body, places = value
        whole = outcome(lambda: frames([body]), ProtocolError)
        assert outcome(lambda: frames(pieces_of(body, places)), ProtocolError) == whole

    return Target(f"frames-{framing}", st.tuples(data(bodies), cuts()), law)


_SPOKEN = tuple(name for name in CODECS if name != "bedrock")
TARGETS = (
    *(_frames(framing, make) for framing, make in FRAMES.items()),
    *map(_decoder, CODECS),
    *map(_bytes, _SPOKEN),
    _aws(),
    *map(_broken_off, _SPOKEN),
)
