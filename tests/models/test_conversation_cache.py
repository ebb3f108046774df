"""What is the same between turns is written once, and the request is the same as if it were written anew."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.messages import (
    AssistantMessage,
    InvocationMessage,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.core.model_request import ModelRequest, ModelScratch, ToolOffer
from handrail.models.codec import Codec, WireRequest
from handrail.models.conversation_cache import WrittenTurns, write_conversation
from handrail.models.history import SystemTurn, Turn
from handrail.models.openai_chat import OpenAIChatCodec
from tests.examples import examples
from tests.models.growing_conversations import ARTEFACTS, CLOCK, CODECS, ODD, GrowingScene, Step, steps

every_codec = pytest.mark.parametrize("name", CODECS)


def seen(wire: WireRequest) -> tuple[Any, ...]:
    """What a service sees of a request, and a caller of what it could not say."""
    return wire.path, wire.headers, msgspec.json.decode(wire.text()), wire.notices


def plain(body: dict[str, Any]) -> Any:
    return msgspec.json.decode(msgspec.json.encode(body))


def rounds(count: int, id: Callable[[int], str] = "call_{}".format) -> tuple[Message, ...]:
    """A question and so many replies with one call each."""
    found: list[Message] = [SupervisorMessage("Be kind."), UserMessage((Text("What time is it?"),))]
    for number in range(count):
        found += (
            AssistantMessage("Let me see."),
            InvocationMessage(ToolCall(id(number), "clock", '{"x": "ab"}')),
            ResultMessage(ToolResult(id(number), "clock", {"hour": 3})),
        )
    return tuple(found)


@settings(max_examples=examples(60))
@given(steps())
def test_a_growing_conversation_is_written_as_if_from_the_beginning(taken: list[Step]) -> None:
    for name, (codec, model) in CODECS.items():
        scene = GrowingScene()
        asked: list[tuple[WireRequest, bytes]] = []
        for step in taken:
            step.do(scene)
            grown, anew = scene.asked(codec, model, kept=True), scene.asked(codec, model, kept=False)
            assert (name, seen(grown)) == (name, seen(anew))
            asked.append((grown, grown.text()))
        for wire, text in asked:  # what was asked before is still what it was: nothing that is shared was changed
            assert (name, wire.text()) == (name, text)
            assert (name, plain(wire.body)) == (name, msgspec.json.decode(text))


@settings(max_examples=15)
@given(steps(), steps())
def test_runs_that_begin_the_same_share_it_and_go_their_own_ways(taken: list[Step], other: list[Step]) -> None:
    for name, (codec, model) in CODECS.items():
        of_model = ModelScratch()
        runner, another = ModelScratch(of_model), ModelScratch(of_model)
        scenes = [GrowingScene(scratch=ModelScratch(base)) for base in (runner, runner, another)]
        for each in zip(taken, [taken[0], *other[1:]], taken, strict=False):
            for scene, step in zip(scenes, each, strict=True):
                step.do(scene)
                grown, anew = scene.asked(codec, model, kept=True), scene.asked(codec, model, kept=False)
                assert (name, seen(grown)) == (name, seen(anew))


@settings(max_examples=examples(20))
@given(steps())
def test_messages_and_tools_stay_as_they_are(taken: list[Step]) -> None:
    for name, (codec, model) in CODECS.items():
        scene = GrowingScene()
        for step in taken:
            step.do(scene)
            before = msgspec.json.encode((scene.messages, scene.tools))
            first, second = (scene.asked(codec, model, kept=True) for _ in range(2))
            assert (name, seen(first)) == (name, seen(second))
            assert (name, msgspec.json.encode((scene.messages, scene.tools))) == (name, before)


_FIELDS = st.sampled_from(["messages", "input", "contents", "system", "toolConfig", "mine"])
_VALUES = st.sampled_from([[], [{"role": "user"}], {"a": {"b": 1}}, "text", None])


@every_codec
@given(extra=st.dictionaries(_FIELDS, _VALUES, max_size=3))
def test_the_callers_own_fields_replace_what_is_kept(name: str, extra: dict[str, Any]) -> None:
    codec, model = CODECS[name]
    scene = GrowingScene(rounds(8))
    scene.asked(codec, model, kept=True)
    wire = scene.asked(codec, model, kept=True, extra=extra)
    assert msgspec.json.decode(wire.text()) == plain(wire.body)
    assert plain({key: wire.body[key] for key in extra if not isinstance(extra[key], dict)}) == {
        key: value for key, value in extra.items() if not isinstance(value, dict)
    }


def calls_made(work: Callable[[], object]) -> int:
    """How many functions of handrail something calls."""
    count = 0

    def see(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_globals["__name__"].startswith("handrail.")

    before = sys.getprofile()
    gc.disable()  # what other tests left behind is not this work
    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


@pytest.mark.parametrize("name", [name for name in CODECS if name not in ("bedrock", "prompted")])
def test_a_turn_is_as_much_work_after_two_hundred_as_after_ten(name: str) -> None:
    codec, model = CODECS[name]
    conversation, scene = rounds(200), GrowingScene(tools=(CLOCK, ODD))
    work = []
    for count in range(2, len(conversation) + 1, 3):
        scene.messages = conversation[:count]
        work.append(calls_made(lambda: scene.asked(codec, model, kept=True).text()))
    assert len(set(work[10:])) == 1


@pytest.mark.parametrize("name", [name for name in CODECS if name != "prompted"])  # which tells of them in words
def test_tools_are_written_once_for_a_set_of_them(name: str) -> None:
    codec, model = CODECS[name]

    def work(count: int) -> int:
        schema = {"type": "object", "properties": {"x": {"type": "string"}}}
        tools = tuple(ToolOffer(f"tool_{number}", "Does it.", schema) for number in range(count))
        request = ModelRequest(messages=rounds(1), tools=tools)
        codec.encode(request, model, stream=True)
        return calls_made(lambda: codec.encode(request, model, stream=True).text())

    assert work(100) == work(3)


class Counting:
    """Writes turns, and counts them."""

    def __init__(self) -> None:
        self.turns: list[int] = []

    def __call__(self, history: tuple[Turn, ...]) -> WrittenTurns:
        self.turns.append(len(history))
        return WrittenTurns([{"turn": type(turn).__name__} for turn in history if not isinstance(turn, SystemTurn)])


def test_each_turn_is_written_once() -> None:
    conversation, scratch, write = rounds(200), ModelScratch(), Counting()
    for count in range(2, len(conversation) + 1, 3):
        request = ModelRequest(messages=conversation[:count], scratch=scratch)
        write_conversation(request, write, provider="p", tools_offered=True)
    assert write.turns[:4] == [2, 4, 6, 8]  # a short conversation is written whole
    assert set(write.turns[6:]) == {2}


def grown(*steps: tuple[Message, ...], codec: Codec = OpenAIChatCodec()) -> tuple[list[Any], list[Any]]:
    """The messages on the wire after the last step, kept and anew."""
    scene = GrowingScene()
    for messages in steps:
        scene.messages += messages
        kept = scene.asked(codec, "gpt-4.1", kept=True)
    return kept.body["messages"], scene.asked(codec, "gpt-4.1", kept=False).body["messages"]


REPLY = AssistantMessage("Well.")


def test_two_replies_with_only_a_blank_between_them_are_one() -> None:
    kept, anew = grown((*rounds(5), REPLY, UserMessage((Text(" "),)), REPLY), (UserMessage((Text("?"),)),))
    assert kept == anew
    assert kept[-2] == {"role": "assistant", "content": "Well.\n\nWell."}


def test_a_result_that_comes_after_the_next_reply_does_not_part_that_from_the_one_after_it() -> None:
    call, result = rounds(1, "late_{}".format)[-2:]
    kept, anew = grown((*rounds(5), call, REPLY, result, REPLY), (UserMessage((Text("?"),)),))
    assert kept == anew
    assert kept[-2] == {"role": "assistant", "content": "Well.\n\nWell."}


def test_a_conversation_that_the_model_begins_has_a_user_before_it() -> None:
    kept, anew = grown((SupervisorMessage("Be kind."), *[UserMessage((Text(""),))] * 12, REPLY))
    assert kept == anew
    assert [message["role"] for message in kept] == ["system", "user", "assistant"]


@every_codec
@pytest.mark.parametrize("instead", [SupervisorMessage("Stop."), UserMessage((Text("Stop."),)), AssistantMessage("")])
def test_what_is_said_in_place_of_a_reply_is_not_lost(name: str, instead: Message) -> None:
    codec, model = CODECS[name]
    scene = GrowingScene(rounds(8))
    scene.asked(codec, model, kept=True)
    scene.messages = (*scene.messages[:-3], instead, REPLY)
    assert seen(scene.asked(codec, model, kept=True)) == seen(scene.asked(codec, model, kept=False))


@every_codec
def test_a_reply_of_which_nothing_is_sent_back_leaves_one_turn_of_the_user(name: str) -> None:
    codec, model = CODECS[name]
    scene = GrowingScene((*rounds(8), AssistantMessage("hm", artefacts=ARTEFACTS[1]), UserMessage((Text("?"),))))
    assert seen(scene.asked(codec, model, kept=True)) == seen(scene.asked(codec, model, kept=False))
    scene.messages += (REPLY,)
    assert seen(scene.asked(codec, model, kept=True)) == seen(scene.asked(codec, model, kept=False))


def test_equal_rounds_with_the_same_ids_keep_their_calls_apart() -> None:
    same = rounds(1, "0".format)[2:]
    kept, anew = grown(rounds(5), same, same, same, same)
    assert kept == anew
    ids = [call["id"] for message in kept for call in message.get("tool_calls", ())]
    assert len(set(ids)) == len(ids) == 9


def test_what_comes_before_a_call_without_a_result_is_kept() -> None:
    conversation, scratch, write = rounds(200), ModelScratch(), Counting()
    cut = (*conversation[:302], REPLY, InvocationMessage(ToolCall("lost", "clock")), *conversation[302:])
    for count in range(302, len(cut) + 1, 3):
        request = ModelRequest(messages=cut[:count], scratch=scratch)
        write_conversation(request, write, provider="p", tools_offered=True)
    assert write.turns[-1] < 210  # those after it; its result may still come


def test_what_must_be_said_before_it_all_is_no_reason_to_write_it_again() -> None:
    codec, model = CODECS["openai_chat, deepseek"]
    request = ModelRequest(messages=rounds(8), scratch=ModelScratch(), response_schema={"type": "object"})
    codec.encode(request, model, stream=True)
    wire = codec.encode(request, model, stream=True)
    assert [part.items for part in wire.known if part.text] == [wire.body["messages"]]
    assert wire.body["messages"][0]["content"].startswith("Reply with JSON only.")
    assert msgspec.json.decode(wire.text()) == wire.body


def test_a_scratch_does_not_grow_with_the_tools_that_come_and_go() -> None:
    codec, scratch = OpenAIChatCodec(), ModelScratch()
    for number in range(20):
        offer = (ToolOffer(f"tool_{number}", "", {}),)
        codec.encode(ModelRequest(messages=rounds(8), tools=offer, scratch=scratch), "m", stream=True)
    assert sum(map(len, scratch.kept.values())) < 10


@every_codec
@pytest.mark.parametrize("wrong", ["tool", "message"])
def test_what_has_no_form_in_json_is_found_where_the_request_is_sent(name: str, wrong: str) -> None:
    codec, model = CODECS[name]
    tool = ToolOffer("clock", "\ud800" if wrong == "tool" else "", {})
    said = "\ud800" if wrong == "message" else "well"
    messages = (*rounds(8), UserMessage((Text(said),)), *rounds(2, "more_{}".format)[2:])
    wire = codec.encode(ModelRequest(messages=messages, tools=(tool,), scratch=ModelScratch()), model, stream=True)
    with pytest.raises(UnicodeEncodeError):
        wire.text()
