"""Any history becomes one that every service takes, and nothing that was said is lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from handrail.core.calls import Attachment, ToolCall, ToolResult
from handrail.core.jsontext import parse_object
from handrail.core.messages import (
    Artefact,
    AssistantMessage,
    DocumentMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.models.history import (
    AssistantTurn,
    ResultTurn,
    SystemTurn,
    Turn,
    UserTurn,
    arguments_of,
    system_text,
    turns,
    without_system,
)


def user(text: str) -> UserMessage:
    return UserMessage((Text(text),))


def asks(id: str, name: str = "f", arguments: str = "{}") -> InvocationMessage:
    return InvocationMessage(ToolCall(id, name, arguments))


def answers(id: str, content: str = "ok", name: str = "f") -> ResultMessage:
    return ResultMessage(ToolResult(id, name, content))


def turned(*messages: Message, tools_offered: bool = True) -> tuple[Turn, ...]:
    return turns(messages, provider="p", tools_offered=tools_offered)


def said(text: str) -> UserTurn:
    return UserTurn((Text(text),))


def test_a_sound_history_stays_as_it_is() -> None:
    call, result = asks("a", arguments='{ "x": 1 }'), answers("a")
    assert turned(SupervisorMessage("be kind"), user("hi"), AssistantMessage("well"), call, result) == (
        SystemTurn("be kind"),
        said("hi"),
        AssistantTurn("well", (), (call,)),
        ResultTurn((result.result,)),
    )


@pytest.mark.requirement("converser.history-repair")
def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    _, _, results = turned(user("hi"), asks("a"), asks("b"), answers("b", "B"))
    assert isinstance(results, ResultTurn)
    missing, present = results.results
    assert (missing.tool_call_id, missing.outcome, missing.is_error) == ("a", "in_doubt", True)
    assert "no result" in missing.text
    assert present == ToolResult("b", "f", "B")


@pytest.mark.requirement("converser.history-repair")
def test_a_result_without_a_call_becomes_the_users_words() -> None:
    assert turned(answers("a", "42"), user("hi")) == (said("[Result of a call to f that is not shown]\n42\n\nhi"),)


@pytest.mark.requirement("converser.history-repair")
def test_without_tools_on_offer_calls_and_results_are_told_in_words() -> None:
    image = Attachment("i.png", "image/png", b"i")
    result = ResultMessage(ToolResult("a", "f", "no such city", outcome="failed", attachments=(image,)))
    message = AssistantMessage("let me see", artefacts=(Artefact("p", 1),))
    assert turned(user("hi"), message, asks("a", arguments='{"x":1}'), result, tools_offered=False) == (
        said("hi"),
        AssistantTurn('let me see\n\n[Called f with {"x":1}]'),
        UserTurn(
            (
                Text("[Result of f] (failed: failed)\nno such city"),
                Media(media_type="image/png", data=b"i", name="i.png"),
            )
        ),
    )


def test_a_late_result_is_moved_to_its_call() -> None:
    call = asks("a")
    assert turned(user("hi"), call, user("hurry"), answers("a", "late")) == (
        said("hi"),
        AssistantTurn(calls=(call,)),
        ResultTurn((ToolResult("a", "f", "late"),)),
        said("hurry"),
    )


def test_results_come_in_the_order_of_the_calls_and_under_their_names() -> None:
    history = turned(user("hi"), asks("a", "F"), asks("b"), answers("b", "B"), answers("a", "A"))
    assert history[-1] == ResultTurn((ToolResult("a", "F", "A"), ToolResult("b", "f", "B")))


def test_a_second_result_of_a_call_is_told_in_words() -> None:
    history = turned(user("hi"), asks("a"), answers("a", "first"), answers("a", "second"))
    assert history[2:] == (
        ResultTurn((ToolResult("a", "f", "first"),)),
        said("[Result of a call to f that is not shown]\nsecond"),
    )


def test_an_id_that_comes_again_is_made_different_with_its_result() -> None:
    history = turned(
        user("hi"), asks("0"), answers("0", "first"), asks("0"), asks("0"), answers("0", "x"), answers("0")
    )
    results = [result for turn in history if isinstance(turn, ResultTurn) for result in turn.results]
    assert [(result.tool_call_id, result.text) for result in results] == [("0", "first"), ("0_2", "x"), ("0_3", "ok")]


def test_a_call_after_a_result_is_a_turn_of_its_own() -> None:
    kinds = [type(turn) for turn in turned(user("hi"), asks("a"), answers("a"), asks("b"), answers("b"))]
    assert kinds == [UserTurn, AssistantTurn, ResultTurn, AssistantTurn, ResultTurn]


def test_adjacent_turns_of_one_role_are_merged_and_empty_ones_vanish() -> None:
    picture = Media(media_type="image/png", url="https://example.org/i.png")
    assert turned(
        SupervisorMessage("a"),
        SupervisorMessage("b"),
        user("one"),
        user(" "),
        AssistantMessage("", artefacts=(Artefact("p", "a thought"),)),
        UserMessage((Text("two"), picture)),
        DocumentMessage("notes.txt", "three"),
        AssistantMessage("x"),
        AssistantMessage("y"),
    ) == (
        SystemTurn("a\n\nb"),
        UserTurn((Text("one\n\ntwo"), picture, Text("## Document: notes.txt\n\nthree"))),
        AssistantTurn("x\n\ny"),
    )


def test_artefacts_of_other_providers_are_dropped() -> None:
    ours, theirs = Artefact("p", {"signature": "s"}), Artefact("q", 1)
    call = InvocationMessage(ToolCall("a", "f"), artefacts=(theirs, ours))
    turn = turned(user("hi"), AssistantMessage("x", artefacts=(ours, theirs)), call)[1]
    assert isinstance(turn, AssistantTurn)
    assert (turn.artefacts, turn.calls[0].artefacts) == ((ours,), (ours,))


def test_a_history_that_begins_with_the_assistant_gets_a_users_turn_first() -> None:
    kinds = [type(turn) for turn in turned(SupervisorMessage("s"), AssistantMessage("hello"))]
    assert kinds == [SystemTurn, UserTurn, AssistantTurn]
    assert turned(SupervisorMessage("s")) == (SystemTurn("s"),)


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("", {}),
        (" null", {}),
        ('{"x": 1.0 }', '{"x": 1.0 }'),
        ('{"x"', {"unreadable_arguments": '{"x"'}),
        ("[1]", {"unreadable_arguments": "[1]"}),
    ],
)
def test_arguments_on_the_wire_are_always_an_object(written: str, sent: object) -> None:
    turn = turned(user("hi"), asks("a", arguments=written))[1]
    assert isinstance(turn, AssistantTurn)
    assert turn.calls[0].call.arguments == sent
    assert isinstance(arguments_of(turn.calls[0].call), dict)


def test_what_the_system_says_first_is_split_off_and_the_rest_can_be_the_users_words() -> None:
    history = turned(SupervisorMessage("a"), user("hi"), SupervisorMessage("b"), user("you"))
    text, rest = system_text(history)
    assert text == "a"
    assert rest == (said("hi"), SystemTurn("b"), said("you"))
    assert without_system(rest) == (said("hi\n\n[System]\nb\n\nyou"),)


_IDS = st.sampled_from(["", "a", "b"])
_TEXTS = st.sampled_from(["", " ", "x", "y"])
_MARKS = st.integers(0, 10**9).map(lambda n: f"<{n}>")
_MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(user, _TEXTS),
    st.builds(SupervisorMessage, _TEXTS),
    st.builds(DocumentMessage, _TEXTS, _TEXTS),
    st.builds(AssistantMessage, _TEXTS, artefacts=st.just((Artefact("p", 1), Artefact("q", 2)))),
    st.builds(asks, _IDS, _MARKS, st.sampled_from(["", "{}", "{", "[]", "null", '{"x":1}'])),
    st.builds(answers, _IDS, _MARKS, _MARKS),
)


def faults(history: Sequence[Turn]) -> list[str]:
    """What the strictest service would refuse."""
    found = []
    ids = [message.id for turn in history if isinstance(turn, AssistantTurn) for message in turn.calls]
    if len(ids) != len(set(ids)) or "" in ids:
        found.append("ids are not unique")
    for before, turn in zip([None, *history], history, strict=False):
        if type(before) is type(turn):
            found.append("two turns of one role")
        called = before.calls if isinstance(before, AssistantTurn) else ()
        answered = turn.results if isinstance(turn, ResultTurn) else ()
        if [(m.id, m.call.name) for m in called] != [(r.tool_call_id, r.name) for r in answered]:
            found.append("calls and results do not pair")
    if history and isinstance(history[-1], AssistantTurn) and history[-1].calls:
        found.append("the last calls are not answered")
    spoken = [turn for turn in history if not isinstance(turn, SystemTurn)]
    if spoken and not isinstance(spoken[0], UserTurn):
        found.append("it does not begin with the user")
    return found


@pytest.mark.requirement("converser.history-repair")
@given(st.lists(_MESSAGES, max_size=12), st.booleans())
def test_any_messages_at_all_become_a_history_that_a_strict_service_takes(
    messages: list[Message], tools_offered: bool
) -> None:
    history = turned(*messages, tools_offered=tools_offered)
    assert faults(history) == []
    assert faults(without_system(system_text(history)[1])) == []
    for turn in history:
        if isinstance(turn, AssistantTurn):
            assert {artefact.provider for artefact in turn.artefacts} <= {"p"}
            assert tools_offered or not turn.calls
            for message in turn.calls:
                arguments = message.call.arguments
                assert isinstance(arguments, dict) or isinstance(parse_object(arguments), dict)


@given(st.lists(_MESSAGES, max_size=12), st.booleans())
def test_every_call_and_every_result_is_still_there_once(messages: list[Message], tools_offered: bool) -> None:
    shown = repr(turned(*messages, tools_offered=tools_offered))
    for message in messages:
        if isinstance(message, InvocationMessage):
            assert message.call.name in shown
        if isinstance(message, ResultMessage):
            wanted = sum(isinstance(m, ResultMessage) and m.result.text == message.result.text for m in messages)
            assert shown.count(message.result.text) >= wanted
