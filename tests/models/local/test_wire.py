"""Frames between the program and the model's process."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from handrail.core.framing import FrameError, FrameSplitter, length_prefixed
from handrail.models.local.wire import EngineAsk, EngineChunk, EngineEnded, read_frame_from_child, read_frame_to_child

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
BODIES = st.dictionaries(st.text(), JSON, max_size=3)


@given(st.lists(BODIES, max_size=4), st.integers(1, 40))
def test_any_cutting_of_the_bytes_gives_the_same_messages(bodies: list[dict[str, object]], size: int) -> None:
    asks = [EngineAsk(number, body) for number, body in enumerate(bodies)]
    data = b"".join(map(length_prefixed, asks))
    frames = FrameSplitter()
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    assert [read_frame_to_child(body) for piece in pieces for body in frames.feed(piece)] == asks


@given(BODIES)
def test_a_chunk_comes_back_as_it_was(data: dict[str, object]) -> None:
    for message in (EngineChunk(7, data), EngineEnded(7)):
        (body,) = FrameSplitter().feed(length_prefixed(message))
        assert read_frame_from_child(body) == message


@given(st.binary(max_size=40))
def test_bytes_that_are_no_message_are_an_error(data: bytes) -> None:
    with pytest.raises(FrameError):
        read_frame_from_child(b"\xff" + data)


def test_a_frame_that_says_it_is_huge_is_not_waited_for() -> None:
    with pytest.raises(FrameError, match="announced"):
        list(FrameSplitter().feed(b"\xff\xff\xff\xff"))
