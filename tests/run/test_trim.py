"""Superseded results are left out of the history, when asked, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from handrail import Conversation, ToolCall, ToolResult
from handrail.core.errors import Outcome
from handrail.core.messages import AssistantMessage, InvocationMessage, ResultMessage
from handrail.run.trim import SUPERSEDED, HistoryCall, Repeated, Rule, SamePlace, WiderListing, trimmed


def history(*calls: tuple[str, dict[str, Any]], outcomes: dict[int, Outcome] | None = None) -> Conversation:
    """Calls one after the other, numbered from 0; each answered with its number."""
    conversation = Conversation().say("go")
    for number, (name, arguments) in enumerate(calls):
        outcome: Outcome = (outcomes or {}).get(number, "ok")
        conversation = conversation.add(
            AssistantMessage(stop="tool_calls"),
            InvocationMessage(ToolCall(str(number), name, arguments)),
            ResultMessage(ToolResult(str(number), name, f"answer {number}", outcome=outcome)),
        )
    return conversation


def superseded(conversation: Conversation) -> list[str]:
    found = [message for message in conversation.messages if isinstance(message, ResultMessage)]
    return [message.invocation_id for message in found if message.result.content == SUPERSEDED]


READ = "read_file"
WRITE = "write_file"


@pytest.mark.requirement("converser.history-trim")
def test_a_file_read_again_leaves_only_the_last_reading() -> None:
    said = history((READ, {"path": "a.txt"}), (READ, {"path": "b.txt"}), (READ, {"path": "./a.txt"}))

    assert superseded(trimmed(said, [SamePlace()])) == ["0"]


@pytest.mark.requirement("converser.history-trim")
def test_a_listing_repeated_leaves_only_the_last() -> None:
    listing = ("list_folder", {"path": "docs"})

    assert superseded(trimmed(history(listing, (READ, {"path": "x"}), listing), [Repeated("list_folder")])) == ["0"]


@pytest.mark.requirement("converser.history-trim")
def test_without_rules_nothing_is_trimmed() -> None:
    said = history((READ, {"path": "a"}), (READ, {"path": "a"}))

    assert trimmed(said, []) is said


def test_a_trimmed_result_keeps_its_place_its_call_and_its_outcome() -> None:
    said = history((READ, {"path": "a"}), (READ, {"path": "a"}))

    after = trimmed(said, [Repeated()])

    assert [type(message) for message in after.messages] == [type(message) for message in said.messages]
    stale = after.messages[3]
    assert isinstance(stale, ResultMessage)
    assert (stale.result.tool_call_id, stale.result.outcome, stale.result.content) == ("0", "ok", SUPERSEDED)
    assert after.messages[:3] == said.messages[:3]
    assert after.messages[4:] == said.messages[4:]


@pytest.mark.parametrize(
    ("older", "newer", "expected"),
    [
        ((READ, {"path": "a"}), (WRITE, {"path": "a", "content": "x"}), True),
        ((WRITE, {"path": "a", "content": "x"}), (READ, {"path": "a"}), True),
        ((READ, {"path": "a"}), (READ, {"path": "a", "lines": 10}), False),
        ((READ, {"path": "a", "lines": 10}), (READ, {"path": "a", "lines": 10}), True),
        ((READ, {"path": "a", "lines": 10}), (READ, {"path": "a"}), True),
        ((READ, {"path": "a"}), ("stat", {"path": "a"}), False),
        (("stat", {"path": "a"}), (READ, {"path": "a"}), False),
        ((READ, {"path": 1}), (READ, {"path": 1}), False),
    ],
)
def test_only_what_covers_the_older_one_supersedes_it(older: Any, newer: Any, expected: bool) -> None:
    assert superseded(trimmed(history(older, newer), [SamePlace()])) == (["0"] if expected else [])


@pytest.mark.parametrize(
    ("older", "newer", "expected"),
    [
        ({"path": "."}, {"path": ".", "recurse": True}, True),
        ({"path": ".", "recurse": True}, {"path": "."}, False),
        ({"path": ".", "filters": ["@gitignore", "+vcs"]}, {"path": ".", "filters": ["+vcs"]}, True),
        ({"path": "."}, {"path": ".", "filters": ["+vcs"]}, False),
        ({"path": "a"}, {"path": "b"}, False),
        ({"path": "a", "sort": "name"}, {"path": "a", "sort": "size"}, False),
    ],
)
def test_a_listing_is_superseded_by_one_that_is_at_least_as_wide(older: Any, newer: Any, expected: bool) -> None:
    said = history(("list_folder", older), ("list_folder", newer))

    assert superseded(trimmed(said, [WiderListing()])) == (["0"] if expected else [])


def test_a_call_that_failed_supersedes_nothing() -> None:
    said = history((READ, {"path": "a"}), (READ, {"path": "a"}), outcomes={1: "failed"})

    assert superseded(trimmed(said, [Repeated()])) == []


@pytest.mark.parametrize("outcome", ["in_doubt", "needs_confirmation"])
def test_what_a_person_must_know_stays(outcome: Outcome) -> None:
    said = history((WRITE, {"path": "a"}), (WRITE, {"path": "a"}), outcomes={0: outcome})

    assert superseded(trimmed(said, [SamePlace()])) == []


def test_work_that_still_runs_stays() -> None:
    said = history((WRITE, {"path": "a"}), (WRITE, {"path": "a"}))
    running = said.messages[3]
    assert isinstance(running, ResultMessage)
    running = replace(running, result=replace(running.result, still_running=True))

    assert superseded(trimmed(Conversation((*said.messages[:3], running, *said.messages[4:])), [SamePlace()])) == []


def test_arguments_written_as_text_are_read_and_broken_ones_are_left_alone() -> None:
    said = Conversation(
        tuple(
            message
            for number, arguments in enumerate(['{"path": "a"}', '{"path":"a"}', '{"path"', '{"path"'])
            for message in (
                InvocationMessage(ToolCall(str(number), READ, arguments)),
                ResultMessage(ToolResult(str(number), READ, "x")),
            )
        )
    )

    assert superseded(trimmed(said, [Repeated()])) == ["0"]


def test_a_rule_of_ones_own_is_a_function() -> None:
    def newest_weather_only(newer: HistoryCall, older: HistoryCall) -> bool:
        return newer.name == older.name == "get_weather"

    rules: list[Rule] = [newest_weather_only]
    said = history(("get_weather", {"location": "Lisbon"}), ("get_weather", {"location": "Porto"}))

    assert superseded(trimmed(said, rules)) == ["0"]


CALLS = st.tuples(
    st.sampled_from([READ, WRITE, "list_folder"]),
    st.fixed_dictionaries({"path": st.sampled_from("ab")}, optional={"lines": st.integers(0, 1)}),
)


@given(st.lists(CALLS, max_size=12), st.sets(st.integers(0, 11)))
def test_trimming_again_changes_nothing_and_the_newest_good_answer_of_each_call_is_kept(
    calls: list[tuple[str, dict[str, Any]]], failed: set[int]
) -> None:
    said = history(*calls, outcomes=dict.fromkeys(failed, "failed"))
    rules: list[Rule] = [SamePlace(), Repeated(), WiderListing()]

    once = trimmed(said, rules)

    assert trimmed(once, rules) == once
    assert len(once) == len(said)
    last_good = {
        repr((name, sorted(arguments.items()))): str(number)
        for number, (name, arguments) in enumerate(calls)
        if number not in failed
    }
    later_writes = {call[1]["path"]: number for number, call in enumerate(calls) if call[0] != "list_folder"}
    for call, number in ((calls[int(id)], id) for id in last_good.values()):
        if call[0] == "list_folder" or later_writes[call[1]["path"]] == int(number):
            assert number not in superseded(once)
