"""Calls come out whole, whatever a server does to their pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.calls import ToolCall
from handrail.core.errors import ProtocolError
from handrail.core.events import CallDelta, CallRequested, ModelEvent
from handrail.core.messages import Artefact
from handrail.models.call_assembly import CallAssembler
from handrail.models.tool_names import OPENAI_NAMES, NameMap
from handrail.testing.ids import CountedIds

Piece = dict[str, Any]


def assemble(*pieces: Piece, assembler: CallAssembler | None = None) -> list[ModelEvent]:
    assembler = assembler or CallAssembler(CountedIds())
    events = [event for piece in pieces for event in assembler.delta(**piece)]
    return [*events, *assembler.finish()]


def calls_in(events: list[ModelEvent]) -> list[ToolCall]:
    return [event.call for event in events if isinstance(event, CallRequested)]


def calls(*pieces: Piece) -> list[ToolCall]:
    return calls_in(assemble(*pieces))


def test_a_call_in_pieces_is_one_call_with_its_text_as_written() -> None:
    events = assemble(
        {"index": 0, "id": "a", "name": "add", "arguments": ""},
        {"index": 0, "arguments": '{ "a":1.0,'},
        {"index": 0, "arguments": ' "b":2}'},
    )
    assert calls_in(events) == [ToolCall("a", "add", '{ "a":1.0, "b":2}')]
    deltas = [event for event in events if isinstance(event, CallDelta)]
    assert "".join(delta.arguments for delta in deltas) == '{ "a":1.0, "b":2}'
    assert {(delta.call_id, delta.name) for delta in deltas} == {("a", "add")}


def test_interleaved_calls_are_told_apart_by_index() -> None:
    assert calls(
        {"index": 0, "id": "a", "name": "one"},
        {"index": 1, "id": "b", "name": "two"},
        {"index": 0, "arguments": '{"x":'},
        {"index": 1, "arguments": '{"y":'},
        {"index": 0, "arguments": "1}"},
        {"index": 1, "arguments": "2}"},
    ) == [ToolCall("a", "one", '{"x":1}'), ToolCall("b", "two", '{"y":2}')]


def test_interleaved_calls_without_indexes_are_told_apart_by_id() -> None:
    assert calls(
        {"id": "a", "name": "one"},
        {"id": "b", "name": "two"},
        {"id": "a", "arguments": '{"x":1}'},
        {"id": "b", "arguments": '{"y":2}'},
    ) == [ToolCall("a", "one", '{"x":1}'), ToolCall("b", "two", '{"y":2}')]


def test_a_new_id_at_a_used_index_is_a_new_call() -> None:
    assert calls(
        {"index": 0, "id": "a", "name": "one", "arguments": '{"x":1}'},
        {"index": 0, "id": "b", "name": "one", "arguments": '{"x":2}'},
        {"index": 0, "id": "a", "arguments": " "},
    ) == [ToolCall("a", "one", '{"x":1} '), ToolCall("b", "one", '{"x":2}')]


def test_a_new_name_after_arguments_at_a_used_index_is_a_new_call() -> None:
    assert calls(
        {"index": 0, "name": "one", "arguments": '{"x":1}'},
        {"index": 0, "name": "two", "arguments": '{"y":2}'},
    ) == [ToolCall("call_1", "one", '{"x":1}'), ToolCall("call_2", "two", '{"y":2}')]


def test_the_same_name_after_whole_arguments_is_a_new_call() -> None:
    assert calls(
        {"name": "one", "arguments": '{"x":1}'},
        {"name": "one", "arguments": '{"x":2}'},
    ) == [ToolCall("call_1", "one", '{"x":1}'), ToolCall("call_2", "one", '{"x":2}')]


def test_a_name_and_an_id_that_come_again_with_every_piece_are_one_call() -> None:
    again = {"index": 0, "id": "a", "name": "one"}
    assert calls(again, {**again, "arguments": '{"x"'}, {**again, "arguments": ":1}"}) == [
        ToolCall("a", "one", '{"x":1}')
    ]
    nameless = {"index": 0, "name": "one"}
    assert calls(nameless, {**nameless, "arguments": '{"x"'}, {**nameless, "arguments": ":1}"}) == [
        ToolCall("call_1", "one", '{"x":1}')
    ]


def test_an_id_used_twice_is_kept_once() -> None:
    assert calls(
        {"index": 0, "id": "a", "name": "one", "arguments": '{"x":'},
        {"index": 1, "id": "a", "name": "one", "arguments": '{"y":'},
        {"index": 0, "id": "a", "arguments": "1}"},
        {"index": 1, "id": "a", "arguments": "2}"},
    ) == [ToolCall("a", "one", '{"x":1}'), ToolCall("call_1", "one", '{"y":2}')]


def test_a_name_in_pieces_is_joined() -> None:
    assert calls(
        {"index": 0, "id": "a", "name": "get_"}, {"index": 0, "name": "weather"}, {"index": 0, "arguments": "{}"}
    ) == [ToolCall("a", "get_weather", "{}")]


def test_arguments_before_the_name_wait_for_it() -> None:
    events = assemble(
        {"index": 0, "arguments": '{"x"'}, {"index": 0, "arguments": ":1"}, {"index": 0, "name": "f", "arguments": "}"}
    )
    assert [event for event in events if isinstance(event, CallDelta)] == [
        CallDelta(call_id="call_1", name="f", arguments='{"x":1}')
    ]
    assert calls_in(events) == [ToolCall("call_1", "f", '{"x":1}')]


def test_an_id_after_the_name_is_still_kept() -> None:
    assert calls({"index": 0, "name": "f"}, {"index": 0, "id": "a", "arguments": "{}"}) == [ToolCall("a", "f", "{}")]


def test_an_index_that_begins_in_mid_call_is_no_new_call() -> None:
    assert calls({"id": "a", "name": "f"}, {"index": 0, "arguments": "{}"}) == [ToolCall("a", "f", "{}")]


def test_two_objects_in_one_stream_are_two_calls() -> None:
    events = assemble(
        {"index": 0, "id": "a", "name": "f", "arguments": '{"x":"}{"}'},
        {"index": 0, "arguments": ' {"x":'},
        {"index": 0, "id": "a", "arguments": '2}{"x":3}'},
    )
    assert calls_in(events) == [
        ToolCall("a", "f", '{"x":"}{"} '),
        ToolCall("call_1", "f", '{"x":2}'),
        ToolCall("call_2", "f", '{"x":3}'),
    ]
    for call in calls_in(events):
        said = [event.arguments for event in events if isinstance(event, CallDelta) and event.call_id == call.id]
        assert "".join(said) == call.arguments


@pytest.mark.parametrize("text", ['{"x":1}garbage', '{"x":1},{"x":2}', "[{}]{}", '"{}"{}', '{"x":', "[1]"])
def test_text_that_is_not_objects_in_a_row_is_given_on_whole_for_the_executor_to_refuse(text: str) -> None:
    assert calls({"id": "a", "name": "f", "arguments": text}) == [ToolCall("a", "f", text)]


@pytest.mark.parametrize("nothing", [None, "", " \n", "null"])
def test_no_arguments_are_an_empty_object(nothing: str | None) -> None:
    assert calls({"id": "a", "name": "f", "arguments": nothing}) == [ToolCall("a", "f", "{}")]


def test_whole_objects_are_calls_each() -> None:
    assert calls(
        {"name": "f", "arguments": {"x": 10**30, "t": "é"}},
        {"name": "f", "arguments": {}},
        {"index": 0, "name": "g", "arguments": {"y": None}},
    ) == [
        ToolCall("call_1", "f", '{"x":1000000000000000000000000000000,"t":"é"}'),
        ToolCall("call_2", "f", "{}"),
        ToolCall("call_3", "g", '{"y":null}'),
    ]


def test_a_call_is_given_out_when_the_wire_says_it_has_ended() -> None:
    assembler = CallAssembler(CountedIds())
    list(assembler.delta(index=1, id="a", name="f", arguments="{}"))
    list(assembler.delta(index=2, id="b", name="g"))
    assert calls_in(list(assembler.complete(1))) == [ToolCall("a", "f", "{}")]
    assert list(assembler.complete(1)) == []
    assert list(assembler.delta(index=1, id="a", arguments="")) == []
    assert calls_in(list(assembler.finish())) == [ToolCall("b", "g", "{}")]


def test_calls_without_arguments_or_ids_are_told_apart_by_their_ends() -> None:
    assembler = CallAssembler(CountedIds())
    ended = []
    for name in ("f", "f"):
        list(assembler.delta(name=name))
        ended += calls_in(list(assembler.complete()))
    assert ended == [ToolCall("call_1", "f", "{}"), ToolCall("call_2", "f", "{}")]


def test_a_call_without_a_name_is_an_error_and_no_other_call_goes_out() -> None:
    assembler = CallAssembler(CountedIds())
    list(assembler.delta(index=0, id="a", name="f", arguments="{}"))
    list(assembler.delta(index=1, id="b", arguments='{"x":1}'))
    given_out: list[ModelEvent] = []
    with pytest.raises(ProtocolError, match="without a name"):
        given_out.extend(assembler.finish())
    assert given_out == []
    with pytest.raises(ProtocolError):
        list(assembler.complete(1))


def test_pieces_that_say_nothing_begin_no_call() -> None:
    assert assemble({"index": 0}, {"index": 0, "id": "", "name": "", "arguments": ""}, {"arguments": None}) == []


def test_names_come_back_as_ours_and_artefacts_go_with_their_call() -> None:
    names = NameMap.of(["io:read"], OPENAI_NAMES)
    thought = Artefact("gemini", {"thoughtSignature": "x"})
    events = assemble(
        {"id": "a", "name": names.to_wire("io:read"), "arguments": "{}", "artefacts": (thought,)},
        {"id": "b", "name": "invented", "arguments": "{}"},
        assembler=CallAssembler(CountedIds(), names),
    )
    assert events[1:] == [
        CallDelta(call_id="b", name="invented", arguments="{}"),
        CallRequested(call=ToolCall("a", "io:read", "{}"), artefacts=(thought,)),
        CallRequested(call=ToolCall("b", "invented", "{}")),
    ]


def test_repair_changes_the_text_only_where_it_changes_the_arguments() -> None:
    def mend(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        assert name == "f"
        return {key: value for key, value in arguments.items() if value is not None}

    pieces: list[Piece] = [{"name": "f", "arguments": text} for text in ('{"a":1 ,"b":null}', '{"a": 1}', '{"a"')]
    events = assemble(*pieces, assembler=CallAssembler(CountedIds(), mend=mend))
    assert [call.arguments for call in calls_in(events)] == ['{"a":1}', '{"a": 1}', '{"a"']


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")) | st.sampled_from(['"}{', "\\"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_ARGUMENTS = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), _JSON, max_size=4)


@given(st.lists(_ARGUMENTS, min_size=1, max_size=3), st.booleans(), st.data())
def test_any_cutting_of_the_text_gives_the_same_calls(
    objects: list[dict[str, Any]], ascii_only: bool, data: st.DataObject
) -> None:
    texts = [json.dumps(value, ensure_ascii=ascii_only) for value in objects]
    whole = "".join(texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    events = assemble({"index": 0, "id": "a", "name": "f"}, *({"index": 0, "arguments": piece} for piece in pieces))
    assert [call.arguments for call in calls_in(events)] == texts
    assert [call.id for call in calls_in(events)] == ["a", *(f"call_{n}" for n in range(1, len(texts)))]
    for call in calls_in(events):
        said = [event.arguments for event in events if isinstance(event, CallDelta) and event.call_id == call.id]
        assert "".join(said) == call.arguments


@given(st.text(), st.data())
def test_any_cutting_of_any_text_at_all_gives_the_same_calls(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    begin: Piece = {"index": 0, "id": "a", "name": "f"}
    cut = calls(begin, *({"index": 0, "arguments": piece} for piece in pieces))
    assert cut == calls(begin, {"index": 0, "arguments": text})


@given(st.data())
def test_any_interleaving_gives_the_same_calls(data: st.DataObject) -> None:
    texts = [json.dumps(data.draw(_ARGUMENTS)) for _ in range(3)]
    left = {index: list(text) for index, text in enumerate(texts)}
    pieces: list[Piece] = [{"index": index, "id": f"c{index}", "name": "f"} for index in left]
    while any(left.values()):
        index = data.draw(st.sampled_from([index for index, rest in left.items() if rest]))
        pieces.append({"index": index, "arguments": left[index].pop(0)})
    assert calls(*pieces) == [ToolCall(f"c{index}", "f", text) for index, text in enumerate(texts)]


def test_a_long_text_in_single_characters_is_joined_once() -> None:
    text = json.dumps({"x": 'a "quoted" {word}, ' * 5000})
    events = assemble({"index": 0, "id": "a", "name": "f"}, *({"index": 0, "arguments": each} for each in text))
    assert calls_in(events) == [ToolCall("a", "f", text)]
    assert len(events) == len(text) + 2
