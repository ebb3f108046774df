"""Server-sent events become the same frames however the bytes are cut."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from handrail.http import BadHttpAnswer
from handrail.node.bus.stream_frame import StreamFrame
from handrail.node.http.sse_frames import SseFrameDecoder

DATA = st.dictionaries(
    st.text(max_size=8),
    st.recursive(st.none() | st.integers(-(2**53), 2**53) | st.text(), st.lists, max_leaves=4),
    max_size=3,
)
EVENTS = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)


@given(
    st.lists(st.tuples(EVENTS, DATA), max_size=6),
    st.lists(st.integers(0, 400), max_size=12),
    st.sampled_from([b"\n", b"\r\n"]),
)
def test_any_way_of_cutting_the_bytes_gives_the_same_frames(
    sent: list[tuple[str, dict[str, Any]]], cuts: list[int], ends: bytes
) -> None:
    frames = [StreamFrame(event, data, number) for number, (event, data) in enumerate(sent, 1)]
    lines = [_written(frame) for frame in frames]
    wire = b": still there\n\n".join([b"", *lines]).replace(b"\n", ends)
    places = sorted({0, len(wire), *(cut for cut in cuts if cut < len(wire))})
    reader = SseFrameDecoder()
    found = [frame for a, b in itertools.pairwise(places) for frame in reader.feed(wire[a:b])]
    assert found == frames


def _written(frame: StreamFrame) -> bytes:
    return b"event: %b\nid: %d\ndata: %b\n\n" % (frame.event.encode(), frame.seq, msgspec.json.encode(frame.data))


@given(st.binary(max_size=200))
def test_bytes_that_are_no_events_are_refused_or_ignored_and_break_nothing(wire: bytes) -> None:
    reader = SseFrameDecoder()
    try:
        found = reader.feed(wire + b"\n\n")
    except BadHttpAnswer:
        return
    assert all(isinstance(frame.data, dict) for frame in found)


@pytest.mark.parametrize(
    "wire",
    [
        b"event: token\ndata: [1]\n\n",
        b"event: token\ndata: {\n\n",
        b"event: token\nid: x\ndata: {}\n\n",
        b"event: a\nevent: b\ndata: {}\n\n",
        b"data: " + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"\n\n",
    ],
    ids=["a list", "half an object", "no number", "a field twice", "deep"],
)
def test_what_is_no_frame_is_no_answer(wire: bytes) -> None:
    with pytest.raises(BadHttpAnswer):
        SseFrameDecoder().feed(wire)


@pytest.mark.parametrize("wire", [b"data: " + b"x" * 100, b"data: " + b"x" * 100 + b"\n"], ids=["no end", "one line"])
def test_an_event_without_end_is_cut_off(wire: bytes) -> None:
    with pytest.raises(BadHttpAnswer, match="more than 64 bytes"):
        SseFrameDecoder(largest=64).feed(wire)


def test_an_event_of_ever_more_fields_is_cut_off() -> None:
    reader = SseFrameDecoder(largest=64)
    with pytest.raises(BadHttpAnswer, match="more than 64 bytes"):
        for number in range(100):
            reader.feed(b"x%d: y\n" % number)


def test_comments_and_events_that_ended_do_not_count() -> None:
    reader = SseFrameDecoder(largest=64)
    found = [frame for _ in range(100) for frame in reader.feed(b": still there\nid: 1\ndata: {}\n\n")]
    assert len(found) == 100
