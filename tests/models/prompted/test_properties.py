"""What holds for every text, every way of cutting it, and every call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from handrail.core.calls import ToolCall
from handrail.core.errors import ProtocolError
from handrail.core.model_request import ToolOffer
from handrail.models.prompted.format_marks import marks_of_format
from handrail.models.prompted.formats import FORMATS
from handrail.models.prompted.prompt_text import call_text
from tests.models.prompted.text_codec import calls_of, events, joined, text_of

formats = st.sampled_from(sorted(FORMATS))
CALL = '{"name": "get_weather", "arguments": {"location": "Li<b>s"}}'
SCRAPS = (
    "<tool_call>", "</tool_call>", "<tool_call", "<|tool_call|>", "</|tool_call|}", "<function=", "f>", "</function>",
    "<parameter=a>", "</parameter>", "```", "```json\n", "```tool_code\n", "\n", " ", "  \n", "{", "}", "[", "]", '"',
    "'",
    '{"name": "search", "arguments": {"q": "x"}}', CALL, CALL[:-1], CALL[:-12], "Action: ", "action: ", "search", "\n",
    "Action Input: ", "tool: [", "search]: ", "<|channel|>commentary to=", "<|message|>", "<|call|>", "<|end|>",
    "<|channel|>", "<|start|>assistant", "analysis", "<|python_tag|>", "search(q='x')", "Hello", "it's", ",", ";", "\\",
    "<tool_use>", "</tool_use>", "<TOOLCALL>", '<invoke name="', "x" * 300,
    "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "function",
    '<｜DSML｜invoke name="', '">', '"/>', '<｜DSML｜parameter name="q" string="true">', "</｜DSML｜parameter>",
    "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_call_start|>", "<|tool_call>",
    "call:search{q:", '<|"|>', "}<tool_call|>", "functools", "<|action_start|>", "<|plugin|>", "<|START_ACTION|>",
    "<|END_RESPONSE|>", "<|tools_prefix|>", "<tool_sep>", "<arg_key>", "</arg_key><arg_value>", "</arg_value>",
    '<steptml:invoke name="', "<minimax:tool_call>",
)  # fmt: skip
replies = st.lists(st.sampled_from(SCRAPS) | st.text(max_size=5), max_size=12).map("".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
words = st.sampled_from(["a", "key", "name", "arguments", "True", "id", "location"]) | st.text(max_size=6)
arguments = st.dictionaries(words, values | st.sampled_from(SCRAPS), max_size=4)


def outcome(format: str, pieces: list[str]) -> object:
    try:
        return joined(events(format, pieces))
    except ProtocolError as error:
        return str(error)


@given(formats, replies, st.data())
def test_however_a_reply_is_cut_into_pieces_the_same_comes_of_it(format: str, reply: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(reply)), max_size=8)))
    pieces = [reply[start:end] for start, end in zip([0, *cuts], [*cuts, len(reply)], strict=True)]

    whole = outcome(format, [reply])

    assert outcome(format, pieces) == whole
    assert outcome(format, list(reply)) == whole


@given(formats, st.text(alphabet=st.characters(exclude_characters="<{[`:", codec="utf-8")))
@example("hermes", "  \n two lines \n\n")
@example("react", "actio")
def test_text_without_markup_passes_through_unchanged(format: str, text: str) -> None:
    found = events(format, [text])

    assert text_of(found) == text
    assert calls_of(found) == []


@given(formats, arguments)
def test_a_call_as_we_render_it_reads_back_as_the_same_call(format: str, asked: dict[str, Any]) -> None:
    offer = ToolOffer("io.read-file", "", {"type": "object", "properties": {"key": {"type": "string"}}})
    call = ToolCall("1", "io.read-file", asked)

    found = events(format, [call_text(call, FORMATS[format], {offer.name: offer.input_schema})], offer)

    assert [(each.name, json.loads(str(each.arguments))) for each in calls_of(found)] == [("io.read-file", asked)]
    assert text_of(found) == ""


@given(formats, st.text(), st.text(min_size=1))
def test_a_call_that_could_not_be_read_can_be_sent_back_and_stays_one_call(format: str, name: str, text: str) -> None:
    rendered = call_text(ToolCall("1", f"f{name}", text), FORMATS[format], {})

    found = events(format, [f"Before.\n{rendered}"])

    assert len(calls_of(found)) == 1
    assert text_of(found).rstrip() == "Before."


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_no_mark_holds_another_that_would_be_found_first(format: str) -> None:
    found = marks_of_format(format)

    for mark in found.shapes:
        opened = found.opening.match(mark + "x")
        assert opened is not None and opened[opened.lastgroup or ""] == mark
        assert not [end for end in range(1, len(mark)) if found.opening.search(mark[:end])]


@pytest.mark.parametrize(
    "unit",
    ["<tool_call>", '<tool_call>{"', "<tool_call>{'a", "```\n", "{\n", '{"a\n', "[a\n", "Action: a\n", CALL,
     "\n" + CALL, f"<tool_call>{CALL}", '<tool_call>{"a</tool_call>', "<function=f><parameter=a>", "[[[",
     '{"a":', "<|channel|>", "[TOOL_CALLS]", "[TOOL_CALLS]f{", "<|tool_call>call:f{a:", '<|"|>', "[TOOL_CALLS",
     '<｜DSML｜invoke name="f">', '<｜DSML｜parameter name="a" string="true">', "functools[", "<|tool_call_begin|>f",
     "<tool_call>f<tool_sep><arg_key>a</arg_key>", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>"],
)  # fmt: skip
@pytest.mark.parametrize("format", ["hermes", "json", "react", "harmony", "mistral", "deepseek_v32", "gemma4", "phi4"])
def test_hostile_replies_of_many_characters_are_gone_through_once(format: str, unit: str) -> None:
    # Work that grew with the square of the length would not end in reasonable time.
    assert outcome(format, [unit * (200_000 // len(unit))])
