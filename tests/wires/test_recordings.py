"""Replies as services really send them are read right, and go back as the service wants them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from handrail.models.wire_events import END, WireEvent
from tests.examples import examples
from tests.wires.recording_player import FOLDER, Recording, play, recordings

ALL = recordings()
ANSWERED = [each for each in ALL if "error" not in each.expected]
UNKNOWN = "x_unknown"
"""How every field, block and event begins that no service has."""
_WRITTEN_BY_THE_MODEL = frozenset({"arguments", "input", "args", "partialArgs"})
_NEW_EVENTS: dict[str, dict[str, Any]] = {
    "anthropic": {"type": f"{UNKNOWN}_event", "delta": {"text": "no"}},
    "bedrock": {f"{UNKNOWN}Event": {"delta": {"text": "no"}}},
    "cohere": {"type": f"{UNKNOWN}-event", "delta": {"message": {"content": {"text": "no"}}}},
    "gemini": {f"{UNKNOWN}Event": "no"},
    "gemini_interactions": {"event_type": f"{UNKNOWN}.event", "text": "no"},
    "ollama": {f"{UNKNOWN}_event": "no"},
    "openai_chat": {"object": f"{UNKNOWN}.event", "delta": {"content": "no"}},
    "openai_responses": {"type": f"response.{UNKNOWN}.delta", "delta": "no"},
}


@pytest.mark.parametrize("recording", ALL, ids=lambda each: each.id)
def test_a_recording_is_read_and_sent_back_as_its_expectation_says(recording: Recording) -> None:
    assert play(recording).outcome == recording.expected


def test_every_recording_names_its_source() -> None:
    named = (FOLDER / "SOURCES.md").read_text("utf-8")
    assert [each.id for each in ALL if f"`{each.wire}/{each.path.name}`" not in named] == []


def test_every_wire_has_text_thoughts_calls_and_errors_streamed_and_whole() -> None:
    for wire in _NEW_EVENTS:
        for streamed in (True, False):
            kind = [each.expected for each in ALL if each.wire == wire and each.streamed == streamed]
            assert any(each.get("text") for each in kind), (wire, streamed)
            assert any(len(each.get("calls", ())) > 1 for each in kind), (wire, streamed)
            assert any(call["arguments"] == "{}" for each in kind for call in each.get("calls", ())), (wire, streamed)
            assert any("error" in each for each in kind), (wire, streamed)
        assert any(each.expected.get("thoughts") for each in ALL if each.wire == wire), wire


values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3).map(UNKNOWN.__add__), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=examples(120), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_fields_that_nobody_knows_change_nothing_of_a_reply(data: st.DataObject) -> None:
    recording = data.draw(st.sampled_from(ANSWERED))
    more = data.draw(st.dictionaries(st.text(max_size=3).map(UNKNOWN.__add__), values, min_size=1, max_size=2))
    events = [
        event if event is END else WireEvent(_with(event.data, more), event.event) for event in recording.events()
    ]
    outcome = play(recording, events).outcome
    assert _without(outcome) == recording.expected  # what the service's own tools gave is shown whole


@settings(max_examples=examples(80), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_events_that_nobody_knows_are_noticed_once_and_change_nothing_of_a_reply(data: st.DataObject) -> None:
    recording = data.draw(st.sampled_from([each for each in ANSWERED if each.streamed]))
    events = recording.events()
    last = len(events) - (END in events)
    for place in sorted(data.draw(st.sets(st.integers(0, last), min_size=1, max_size=3)), reverse=True):
        events.insert(place, WireEvent(_NEW_EVENTS[recording.wire]))
    played, expected = play(recording, events), recording.expected
    assert played.outcome == {**expected, "notices": expected["notices"] + 1}
    assert any(UNKNOWN in notice for notice in played.notices)


def _named(id: str) -> Recording:
    return next(each for each in ALL if each.id == id)


@pytest.mark.parametrize(
    ("id", "block"),
    [
        ("anthropic/text", {"type": f"{UNKNOWN}_block", "data": [1]}),
        ("bedrock/text", {f"{UNKNOWN}Block": {"data": [1]}}),
        ("gemini/text", {f"{UNKNOWN}Part": {"data": [1]}}),
    ],
)
def test_a_block_that_nobody_knows_is_kept_noticed_and_sent_back(id: str, block: dict[str, Any]) -> None:
    recording = _named(id)
    event = recording.events()[0].data
    match event:
        case {"content": list(blocks)} | {"output": {"message": {"content": list(blocks)}}}:
            blocks.append(block)
        case {"candidates": [{"content": {"parts": list(parts)}}]}:
            parts.append(block)
    played, expected = play(recording, [WireEvent(event)]), recording.expected
    assert played.outcome["text"] == expected["text"]
    assert any(UNKNOWN in notice for notice in played.notices)
    (reply,) = played.outcome["sent_back"]
    assert block in (reply.get("content") or reply["parts"])


def _with(value: Any, more: dict[str, Any]) -> Any:
    """The value with further fields in every object that the model did not write."""
    match value:
        case dict():
            found = {key: inner if key in _WRITTEN_BY_THE_MODEL else _with(inner, more) for key, inner in value.items()}
            return {**found, **more}
        case list():
            return [_with(inner, more) for inner in value]
    return value


def _without(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without(inner) for key, inner in value.items() if not key.startswith(UNKNOWN)}
        case list():
            return [_without(inner) for inner in value]
    return value
