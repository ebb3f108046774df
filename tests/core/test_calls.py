"""Calls and results: frozen, readable in every spelling, whole after a trip through JSON."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from handrail.core.calls import Attachment, Problem, SpilledOutput, ToolCall, ToolResult, encode_data
from handrail.core.errors import OUTCOMES, UsageError

texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=12)

results = st.builds(
    ToolResult,
    texts,
    texts,
    values,
    st.sampled_from(OUTCOMES),
    error=st.none() | st.builds(Problem, texts, texts),
    warnings=st.lists(texts).map(tuple),
    attachments=st.lists(st.builds(Attachment, texts, texts, st.binary())).map(tuple),
    spilled=st.none() | st.builds(SpilledOutput, texts, st.integers(0, 2**40)),
    still_running=st.booleans(),
    reused_from=st.none() | texts,
    duration_us=st.integers(0, 2**60),
)


def through_json(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


SPELLINGS: dict[str, dict[str, Any]] = {
    "ours": {"id": "c1", "name": "add", "arguments": {"a": 1}},
    "OpenAI chat": {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}},
    "OpenAI responses": {
        "type": "function_call",
        "id": "fc_9",
        "call_id": "c1",
        "name": "add",
        "arguments": '{"a": 1}',
        "status": "completed",
    },
    "Anthropic": {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
    "nrv": {"invocation_id": "c1", "tool_name": "add", "input": {"a": 1}},
    "nrv stream": {"invocation_id": "c1", "descriptor_name": "add", "arguments_json": '{"a": 1}'},
    "HearthNet delta": {"tool_call_id": "c1", "name": "add", "args": {"a": 1}},
}


@pytest.mark.requirement("hearthnet.call-and-result")
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_call_is_read_in_every_spelling(spelling: str) -> None:
    call = ToolCall.from_dict(through_json(SPELLINGS[spelling]))

    assert (call.id, call.name) == ("c1", "add")
    assert call.arguments in ({"a": 1}, '{"a": 1}')


@pytest.mark.requirement("hearthnet.call-and-result")
@given(st.builds(ToolCall, texts, texts, st.dictionaries(texts, values) | texts))
def test_any_call_comes_back_from_json_as_it_was(call: ToolCall) -> None:
    assert ToolCall.from_dict(through_json(call.to_dict())) == call
    assert msgspec.json.decode(msgspec.json.encode(call), type=ToolCall) == call


@pytest.mark.requirement("hearthnet.call-and-result")
@given(results)
def test_any_result_comes_back_from_json_as_it_was(result: ToolResult) -> None:
    assert ToolResult.from_dict(through_json(result.to_dict())) == result
    assert msgspec.json.decode(msgspec.json.encode(result), type=ToolResult) == result


@pytest.mark.requirement("hearthnet.call-and-result")
def test_calls_and_results_cannot_be_changed() -> None:
    for value, field in ((ToolCall("c1", "add"), "name"), (ToolResult("c1", "add"), "content")):
        with pytest.raises(AttributeError):
            setattr(value, field, "other")


@pytest.mark.requirement("hearthnet.call-and-result")
def test_a_hearthnet_result_needs_nothing_but_its_four_fields() -> None:
    written = {"tool_call_id": "c1", "name": "add", "content": {"sum": 3}, "is_error": False}

    assert ToolResult.from_dict(written) == ToolResult("c1", "add", {"sum": 3})
    assert ToolResult("c1", "add", {"sum": 3}).to_dict() == written


def test_is_error_without_an_outcome_is_a_failure() -> None:
    result = ToolResult.from_dict({"tool_call_id": "c1", "name": "add", "content": "no", "is_error": True})

    assert result.outcome == "failed"
    assert result.is_error


def test_an_outcome_says_more_than_is_error() -> None:
    written = {"tool_call_id": "c1", "name": "add", "outcome": "timeout", "is_error": True}

    assert ToolResult.from_dict(written).outcome == "timeout"


@pytest.mark.parametrize("absent", [{}, {"arguments": None}, {"input": None}])
def test_no_arguments_are_an_empty_object(absent: dict[str, Any]) -> None:
    assert ToolCall.from_dict({"id": "c1", "name": "add", **absent}).arguments == {}


@pytest.mark.parametrize(("written", "kept"), [([1, 2], "[1,2]"), (5, "5"), (True, "true")])
def test_arguments_that_are_no_object_are_kept_as_the_text_the_model_wrote(written: Any, kept: str) -> None:
    assert ToolCall.from_dict({"id": "c1", "name": "add", "arguments": written}).arguments == kept


def test_a_call_without_an_id_has_an_empty_one_and_a_number_is_its_text() -> None:
    assert ToolCall.from_dict({"name": "add"}).id == ""
    assert ToolCall.from_dict({"name": "add", "id": 0}).id == "0"


@pytest.mark.parametrize("written", [{}, {"id": "c1"}, {"name": 3}, {"function": {}}, {"name": "a", "id": ["c1"]}])
def test_a_call_that_cannot_be_told_is_refused(written: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ToolCall.from_dict(written)


@pytest.mark.parametrize("written", [{}, {"tool_call_id": "c1", "name": "a", "outcome": "good"}, {"name": 1}])
def test_a_result_that_cannot_be_told_is_refused(written: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ToolResult.from_dict(written)


def test_the_text_of_a_result_is_its_text_or_its_json() -> None:
    assert ToolResult("c1", "add", "three").text == "three"
    assert ToolResult("c1", "add", {"sum": [3, None]}).text == '{"sum":[3,null]}'
    assert ToolResult("c1", "add", None).text == "null"


@given(st.binary())
def test_the_bytes_of_an_attachment_stand_in_json_as_base64(data: bytes) -> None:
    written = {"name": "a", "media_type": "image/png", "data": encode_data(data)}

    assert Attachment.from_dict(written) == Attachment("a", "image/png", data)
    assert through_json(Attachment("a", "image/png", data)) == written


def test_equal_calls_are_equal() -> None:
    assert ToolCall("c1", "add", {"a": 1}) == ToolCall("c1", "add", {"a": 1})
    assert ToolCall("c1", "add", {"a": 1}) != ToolCall("c1", "add", {"a": 2})
