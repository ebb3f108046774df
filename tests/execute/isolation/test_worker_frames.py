"""Frames between host and worker: any cutting of the bytes gives the same frames, and only JSON gets into one."""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from handrail.core.calls import Attachment, Output
from handrail.core.framing import FrameError, FrameSplitter, length_prefixed
from handrail.core.jsontext import first_non_json
from handrail.execute.isolation.worker_frames import JobCrashed, JobDone, JobFailed, JobProgress, read_reply

texts = st.text(st.characters(exclude_categories=["Cs"]))
replies = st.one_of(
    st.builds(JobProgress, st.integers(0, 9), st.none() | st.floats(0, 1), st.none(), texts),
    st.builds(JobFailed, st.integers(0, 9), st.just("failed"), texts, texts),
    st.builds(JobCrashed, st.integers(0, 9), texts, texts, st.booleans()),
    st.builds(
        JobDone,
        st.integers(0, 9),
        st.builds(
            Output,
            st.none() | texts | st.lists(st.integers()),
            st.just(("w",)),
            st.tuples(st.builds(Attachment, texts, texts, st.binary())),
        ),
    ),
)


@given(st.lists(replies), st.integers(1, 64))
def test_any_way_of_cutting_the_bytes_gives_the_same_messages(messages: list[Any], size: int) -> None:
    data = b"".join(length_prefixed(message) for message in messages)
    frames = FrameSplitter()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert [read_reply(body) for piece in pieces for body in frames.feed(piece)] == messages


@given(st.binary(min_size=1))
def test_bytes_that_are_no_reply_are_a_frame_error(garbage: bytes) -> None:
    with pytest.raises(FrameError):
        read_reply(garbage)


@given(st.binary())
def test_a_stream_of_garbage_gives_bodies_or_a_frame_error_and_nothing_else(garbage: bytes) -> None:
    frames = FrameSplitter(limit=64)
    try:
        bodies = list(frames.feed(garbage))
    except FrameError:
        return
    assert sum(4 + len(body) for body in bodies) <= len(garbage)


def test_a_frame_that_says_it_is_too_long_is_refused_before_its_body_comes() -> None:
    with pytest.raises(FrameError, match="101 bytes"):
        list(FrameSplitter(limit=100).feed((101).to_bytes(4, "big")))


def test_a_message_over_the_limit_is_not_made_into_a_frame() -> None:
    with pytest.raises(FrameError, match="at most 100"):
        length_prefixed(JobCrashed(1, "x" * 100, ""), limit=100)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=10,
)


@given(json_values)
def test_what_is_json_is_not_foreign(value: Any) -> None:
    assert first_non_json(value, "value") is None
    assert msgspec.json.decode(msgspec.json.encode(value)) == value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": [1, {"b": date(2026, 1, 1)}]}, "auxdata.a[1].b is a date"),
        ({"f": print}, "auxdata.f is a builtin_function_or_method"),
        ({1: "x"}, "auxdata has the key 1, which is not text"),
        ({"n": float("nan")}, "auxdata.n is nan"),
        ({"s": "\ud800"}, "auxdata.s is text that is not Unicode"),
        ({"b": b"x"}, "auxdata.b is a bytes"),
    ],
)
def test_what_is_not_json_is_named_by_its_place(value: Any, words: str) -> None:
    assert first_non_json(value, "auxdata") == words
