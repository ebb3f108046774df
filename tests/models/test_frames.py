"""Bytes into frames and events: however they are cut, the same; and nothing that looks like damage is passed over."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from handrail.core.errors import ProtocolError
from handrail.models.codec import Framing
from handrail.models.frames import FrameParser, JsonFrames, NdjsonFrames, ReplyFrame, SseFrames
from handrail.models.wire_events import END, WireEvent, WireReader

ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=12)


def framed(frames: FrameParser, chunks: Iterable[bytes]) -> list[ReplyFrame] | str:
    try:
        found = [frame for chunk in chunks for frame in frames.feed(chunk)]
        return [*found, *frames.finish()]
    except ProtocolError as error:
        return str(error)


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    at = [0, *sorted({min(place, len(data)) for place in places}), len(data)]
    return [data[start:end] for start, end in pairwise(at)]


@st.composite
def sse_streams(draw: st.DrawFn) -> tuple[bytes, list[ReplyFrame]]:
    """A well-formed stream and what it holds."""
    stream, frames, end = bytearray(b"\xef\xbb\xbf" if draw(st.booleans()) else b""), [], draw(ENDS)
    for _ in range(draw(st.integers(0, 5))):
        lines, event = draw(st.lists(WORDS, min_size=1, max_size=3)), draw(st.one_of(st.just(""), WORDS))
        written = [f"event: {event}"] if event else []
        written += [f"data: {line}" for line in lines]
        extras = draw(st.lists(st.sampled_from([": keep-alive", "id: 7", "retry: 10", ":"]), max_size=2))
        for line in [*written, *extras, ""]:
            stream += line.encode() + end
        frames.append(ReplyFrame("\n".join(lines).encode(), event))
    return bytes(stream), frames


@given(sse_streams(), st.lists(st.integers(0, 400), max_size=40))
def test_an_event_stream_gives_its_events_however_it_is_cut(
    stream: tuple[bytes, list[ReplyFrame]], places: list[int]
) -> None:
    data, frames = stream
    assert framed(SseFrames(), cut(data, places)) == frames


KINDS: list[Callable[[int], FrameParser]] = [SseFrames, NdjsonFrames, JsonFrames]


@pytest.mark.parametrize("kind", KINDS)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.lists(st.sampled_from([b"data:", b"data: {}", b"event: a", b"\r", b"\n", b":", b"x", b"\xef\xbb\xbf"])).map(
            b"".join
        ),
    )
)
@example(b"data: a\r\n\r\ndata: b")
def test_any_bytes_give_the_same_whole_byte_by_byte_or_at_once(kind: Callable[[int], FrameParser], data: bytes) -> None:
    def all_at_once() -> list[ReplyFrame] | str:
        return framed(kind(20), [data])

    one_by_one = framed(kind(20), [data[at : at + 1] for at in range(len(data))])
    assert one_by_one == all_at_once()


def test_an_event_that_only_lacks_its_last_line_end_is_given_out() -> None:
    assert framed(SseFrames(), [b'data: {"a":1}']) == [ReplyFrame(b'{"a":1}')]
    assert framed(SseFrames(), [b'data: {"a":1}\n']) == [ReplyFrame(b'{"a":1}')]


@pytest.mark.parametrize("rest", [b"dat", b"event: message_st", b"event: message_stop\n", b"data"])
def test_an_event_stream_that_ends_inside_an_event_was_cut_off(rest: bytes) -> None:
    assert framed(SseFrames(), [b"data: {}\n\n" + rest]) == "the reply was cut off inside an event"


@pytest.mark.parametrize("line", [b'{"error": "boom"}\n', b"<html>\n", b"upstream error: 502\n", b"\x00\n"])
def test_a_line_that_belongs_in_no_event_stream_is_an_error(line: bytes) -> None:
    assert framed(SseFrames(), [b"data: {}\n\n" + line]) == "the reply has a line that is not part of an event stream"


def test_comments_and_fields_of_other_versions_are_passed_over() -> None:
    data = b": OPENROUTER PROCESSING\n\n:\n\nid: 3\nretry: 5\nfuture-field: x\ndata: {}\n\n"
    assert framed(SseFrames(), [data]) == [ReplyFrame(b"{}")]


@pytest.mark.parametrize(
    "frames, data",
    [
        (SseFrames(10), b"data: " + b"x" * 11 + b"\n\n"),
        (SseFrames(10), b"data: 123\ndata: 456\ndata: 789\n\n"),
        (SseFrames(10), b"data:\n" * 11),
        (NdjsonFrames(10), b"x" * 11 + b"\n"),
        (JsonFrames(10), b"x" * 11),
    ],
)
def test_an_event_beyond_its_largest_size_is_an_error(frames: FrameParser, data: bytes) -> None:
    assert "larger than 10 bytes" in str(framed(frames, [data]))


def test_the_largest_size_is_of_one_event_and_not_of_the_stream() -> None:
    assert len(framed(SseFrames(20), [b"data: 123\n\n" * 100])) == 100
    assert len(framed(NdjsonFrames(5), [b"{}\n" * 100])) == 100


def test_a_long_event_in_tiny_pieces_is_joined_once() -> None:
    size = 300_000
    data = b"data: " + b"x" * size + b"\n\n"
    assert framed(SseFrames(), (data[at : at + 1] for at in range(len(data)))) == [ReplyFrame(b"x" * size)]


# Events.


def read(framing: Framing, data: bytes, media_type: str = "", **more: Any) -> list[WireEvent]:
    reader = WireReader(framing, media_type, **more)
    return [*reader.feed(data), *reader.finish()]


JSON = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(st.characters(exclude_categories=["Cs"]), max_size=8)),
    max_size=4,
)


@given(st.lists(JSON, min_size=1, max_size=5), st.booleans(), st.lists(st.integers(0, 300), max_size=20))
def test_objects_come_out_of_every_framing_as_they_went_in(
    objects: list[dict[str, Any]], escaped: bool, places: list[int]
) -> None:
    texts = [json.dumps(each, ensure_ascii=escaped).encode() for each in objects]
    bodies: list[tuple[Framing, bytes]] = [
        ("sse", b"".join(b"data: " + text + b"\r\n\r\n" for text in texts) + b"data: [DONE]\r\n\r\n"),
        ("ndjson", b"\n".join(texts)),
    ]
    for framing, body in bodies:
        reader = WireReader(framing)
        found = [event for chunk in cut(body, places) for event in reader.feed(chunk)]
        assert [event.data for event in [*found, *reader.finish()] if event is not END] == objects


def test_the_name_of_an_event_comes_with_it() -> None:
    assert read("sse", b'event: ping\ndata: {"type":"ping"}\n\n') == [WireEvent({"type": "ping"}, "ping")]


def test_nothing_after_done_is_read() -> None:
    assert read("sse", b"data: {}\n\ndata: [DONE]\n\ndata: broken\n\n") == [WireEvent({}), END]


@pytest.mark.parametrize(
    "body",
    [
        b"data: {}\n\ndata: {broken\n\n",
        b'data: {}\n\ndata: {"a": NaN}\n\n',
        b'data: {}\n\ndata: {"args": {"a": 1, "a": 2}}\n\n',
        b"data: {}\n\ndata: [1]\n\n",
        b'data: {}\n\ndata: "text"\n\n',
        b"data: {}\n\ndata: [DO",
        b'data: {}\n\ndata: {"cut": "o',
        b'data: {}\n\ndata: "\xff"\n\n',
        b"data: {}\n\ndata: " + b"[" * 100_000 + b"\n\n",
    ],
)
def test_an_event_that_is_no_json_object_is_an_error_and_never_skipped(body: bytes) -> None:
    reader = WireReader("sse")
    given_out: list[WireEvent] = []
    with pytest.raises(ProtocolError, match="event of the reply is not"):
        for event in reader.feed(body):
            given_out.append(event)
        given_out.extend(reader.finish())
    assert given_out == [WireEvent({})]


def test_an_event_without_data_keeps_the_connection_alive_and_says_nothing() -> None:
    assert read("sse", b"data:\n\ndata: {}\n\nevent: ping\ndata: \n\n") == [WireEvent({})]


@pytest.mark.parametrize("media_type", ["text/html", "TEXT/HTML", "application/xhtml+xml"])
def test_a_page_in_place_of_a_reply_is_an_error_that_shows_how_it_begins(media_type: str) -> None:
    page = b"<!doctype html>\n<h1>Sign in to the hotel's network</h1>" + b"x" * 1000
    with pytest.raises(ProtocolError, match=r"begins: <!doctype html> <h1>Sign in") as caught:
        read("sse", page, media_type)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("framing", ["sse", "ndjson", "json"])
@pytest.mark.parametrize("body", [b"", b"\n", b"  "])
def test_an_empty_reply_is_an_error(framing: Framing, body: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(framing, body)


def test_the_beginning_that_an_error_shows_has_no_secret_in_it() -> None:
    key = "canary-5f1e9b8c7d6a"
    for place in range(150, 260):
        with pytest.raises(ProtocolError) as caught:
            read("sse", b"<" + b"x" * place + key.encode() + b" and more", secrets=[key])
        assert "canary" not in str(caught.value)


def test_a_service_that_answers_a_stream_in_one_piece_is_understood() -> None:
    assert read("sse", b'{"id": 1}', "application/json") == [WireEvent({"id": 1})]


def test_a_service_that_streams_when_asked_for_one_piece_is_understood() -> None:
    assert read("json", b'data: {"id": 1}\n\n', "text/event-stream") == [WireEvent({"id": 1})]
    assert read("json", b'{"id": 1}\n{"id": 2}', "application/x-ndjson") == [WireEvent({"id": 1}), WireEvent({"id": 2})]


def test_a_reply_beyond_its_longest_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="larger than 100 bytes"):
        read("sse", b": keep-alive\n" * 100, longest=100)
