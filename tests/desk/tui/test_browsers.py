"""The browsers of the terminal program: conversations, tools, the record."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from textual.widgets import Input, OptionList, TextArea

from handrail.core.display import printable
from handrail.core.messages import AssistantMessage, Conversation
from handrail.desk.tui.call_card import CallCardContent, _body
from handrail.desk.tui.conversations import ConversationsScreen
from handrail.desk.tui.dialogs import ConfirmDialog, FullTextDialog, LineDialog
from handrail.desk.tui.formatting import inline, line, plain
from handrail.desk.tui.json_editor import JsonEditor, json_template
from handrail.desk.tui.proof import ProofScreen
from handrail.desk.tui.tools import ToolsScreen, TrialScreen, duration_bars
from tests.desk.tui.scripted_terminal import HOSTILE, ScriptedTerminal, terminal


async def talks(person: ScriptedTerminal) -> None:
    await person.press("ctrl+o")
    await person.at(ConversationsScreen)


async def test_conversations_are_listed_searched_and_gone_to(folder: Path) -> None:
    talk = Conversation().say("the otter question").add(AssistantMessage("otters swim"))
    async with terminal(folder, talk) as person:
        await person.says("otters swim")
        await person.press("ctrl+n")
        await person.until(lambda: "otters swim" not in person.screen)
        await person.say("hello there")
        await person.says("Hello!")
        await person.idle()
        await talks(person)
        await person.says("the otter question")
        assert "hello there" in person.screen
        await person.press("slash")
        await person.type("swim")
        await person.until(lambda: person.app.screen.query_one(OptionList).option_count == 1)
        await person.press("enter", "enter")
        await person.until(lambda: person.app.screen is person.app.chat)
        await person.says("otters swim")


async def test_a_conversation_is_renamed_forked_and_deleted(folder: Path) -> None:
    async with terminal(folder, Conversation().say("one").add(AssistantMessage("two"))) as person:
        await talks(person)
        await person.press("r")
        await person.at(LineDialog)
        person.app.screen.query_one(Input).value = "Better"
        await person.press("enter")
        await person.says("Better")
        await person.press("f")
        await person.until(lambda: person.app.screen is person.app.chat and person.app.chat.talk != "run_before")
        await person.says("two")
        await talks(person)
        await person.until(lambda: person.app.screen.query_one(OptionList).option_count == 2)
        await person.says("forked")
        await person.press("d")
        await person.at(ConfirmDialog)
        assert "The record of what ran stays" in person.screen
        await person.press("right", "enter")
        await person.at(ConversationsScreen)
        await person.until(lambda: person.app.screen.query_one(OptionList).option_count == 1)


async def test_a_conversation_is_shared_as_a_file_and_taken_from_it(folder: Path) -> None:
    async with terminal(folder, Conversation().say("one").add(AssistantMessage("two"))) as person:
        await talks(person)
        await person.press("s")
        await person.at(LineDialog)
        person.app.screen.query_one(Input).value = str(folder / "talk.json")
        await person.press("enter")
        await person.until((folder / "talk.json").exists)
        await person.at(ConversationsScreen)
        await person.press("t")
        await person.at(LineDialog)
        person.app.screen.query_one(Input).value = str(folder / "talk.json")
        await person.press("enter")
        await person.until(lambda: person.app.screen is person.app.chat and person.app.chat.talk != "run_before")
        await person.says("two")


async def test_tools_are_browsed_with_schema_rules_and_numbers(folder: Path) -> None:
    async with terminal(folder, size=(100, 50)) as person:
        await person.say("sum please")
        await person.idle()
        await person.press("f2")
        await person.at(ToolsScreen)
        await person.says("box:add")
        await person.press("slash")
        await person.type("two numbers")
        await person.until(lambda: person.app.screen.query_one(OptionList).option_count == 1)
        await person.says("offered 2 times, called 1, failed 0")
        await person.says('"type": "integer"')
        await person.says("rules")


async def test_a_tool_is_tried_through_the_same_questions(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.press("f2")
        await person.at(ToolsScreen)
        await person.press("slash")
        await person.type("pay")
        await person.until(lambda: person.app.screen.query_one(OptionList).option_count == 1)
        await person.press("enter", "t")
        await person.at(JsonEditor)
        person.app.screen.query_one(TextArea).load_text('{"to": "eve", "amount": 1}')
        await person.press("ctrl+s")
        await person.asked()
        assert person.paid == []
        await person.press_button("allow")
        await person.at(TrialScreen)
        await person.says("paid 1 to eve")
        assert person.paid == ["eve 1"]
        await person.press("escape")
        await person.at(ToolsScreen)


async def test_a_trial_that_was_left_goes_on_and_is_there_again_until_it_was_seen(folder: Path) -> None:
    async with terminal(folder) as person:
        trial = person.desk.trials.begin("box:pay", {"to": "eve", "amount": 1})
        await person.press("f2")
        await person.at(ToolsScreen)
        await person.press("slash")
        await person.type("pay")
        await person.until(lambda: person.app.screen.query_one(OptionList).option_count == 1)
        await person.press("enter", "t")
        await person.asked()
        await person.press("escape")
        await person.at(TrialScreen)
        await person.press("ctrl+x")
        await person.until(lambda: trial.is_seen)
        assert trial.call.outcome == "cancelled" and person.paid == [] and person.desk.questions == ()
        await person.press("escape")
        await person.at(ToolsScreen)
        await person.press("t")
        await person.at(JsonEditor)


async def test_a_question_that_came_during_another_is_asked_when_the_person_is_back(folder: Path) -> None:
    async with terminal(folder) as person:
        person.app.push_screen(TrialScreen(person.desk, "box:pay", {"to": "eve", "amount": 1}))
        tried = await person.asked()
        await person.desk.say(person.app.chat.talk, "pay")
        await person.until(lambda: len(person.desk.questions) == 2)
        await person.press("ctrl+q")
        await person.says("A tool is running")
        await person.press("escape")
        await person.until(lambda: person.app.screen is tried)
        await person.press("escape")
        await person.at(TrialScreen)
        await person.press("escape")
        ask = await person.asked()
        assert ask.question.conversation == person.app.chat.talk
        assert person.paid == []


async def test_the_record_is_browsed_verified_and_given_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.desk.tui.proof._RUNS", 1)  # at a time: those before come by themselves
    async with terminal(folder, size=(100, 30)) as person:
        await person.desk.say(await person.desk.begin(), "hello")
        await person.say("sum please")
        await person.idle()
        await person.press("f3")
        await person.at(ProofScreen)
        await person.says("box:add: ok")
        await person.until(lambda: person.app.screen.query_one("#runs", OptionList).option_count == 2)
        await person.press("v")
        await person.at(FullTextDialog)
        await person.says("VERIFIED")
        assert "NOT VERIFIED" not in person.screen
        await person.press("escape")
        await person.press("x")
        await person.at(LineDialog)
        person.app.screen.query_one(Input).value = str(folder / "bundle")
        await person.press("enter")
        await person.until((folder / "bundle" / "verify.py").exists)
        await person.at(ProofScreen)
        await person.press("enter")
        entries = person.app.screen.query_one("#entries", OptionList)
        await person.until(lambda: entries.has_focus)
        while "add: ok" not in str(entries.get_option_at_index(entries.highlighted or 0).prompt):
            await person.press("down")
        await person.press("r")
        await person.at(LineDialog)
        person.app.screen.query_one(Input).value = str(folder / "receipt.json")
        await person.press("enter")
        await person.until((folder / "receipt.json").exists)
        await person.at(ProofScreen)
        await person.press("enter")
        await person.at(FullTextDialog)
        await person.says("leaf")


async def test_a_record_that_was_changed_is_said_to_be(folder: Path) -> None:
    async with terminal(folder, size=(100, 30)) as person:
        await person.say("sum please")
        await person.idle()
        with closing(sqlite3.connect(folder / ".handrail" / "journal.db")) as db, db:
            db.execute("UPDATE entry SET data = CAST('{}' AS BLOB) WHERE data IS NOT NULL")
        await person.press("f3")
        await person.at(ProofScreen)
        await person.press("v")
        await person.at(FullTextDialog)
        await person.says("NOT VERIFIED")


@given(st.text(), st.integers(4, 80))
def test_a_line_is_one_line_and_never_longer_than_it_may_be(text: str, most: int) -> None:
    for shown in (line(text, most), inline({text: text}, most), inline(text, most)):
        assert len(shown) <= most and "\n" not in shown
        assert printable(shown) == shown


def test_durations_become_bars_and_failures_crosses() -> None:
    assert duration_bars((1, 8, -8, 4)) == "▁█✗▄"
    assert duration_bars(()) == ""


def test_arguments_begin_with_what_is_required() -> None:
    schema = {
        "properties": {"a": {"type": "integer"}, "b": {"default": "x"}, "c": {"enum": ["k"]}, "d": {"type": "array"}},
        "required": ["a", "b", "c", "missing"],
    }
    assert json_template(schema) == {"a": 0, "b": "x", "c": "k"}
    assert json_template({}) == {}


def test_what_is_cut_is_said_to_be() -> None:
    assert line("a" + " " * 400 + "b", 10) == "a…"
    assert line("a  b", 10) == "a b"
    body = _body(CallCardContent(call_id="c", name="x", arguments={"text": "y" * 9_000})).plain
    assert "the first 8,000 of 9,0" in body


def test_nothing_of_a_hostile_text_is_markup() -> None:
    assert not plain(HOSTILE).spans
