"""What a person is asked before something is changed, and what becomes of each answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import TextArea

from handrail.desk.tui.dialogs import LineDialog, PickDialog
from handrail.desk.tui.json_editor import JsonEditor
from handrail.desk.tui.question import QuestionScreen
from handrail.desk.values import DeskQuestion
from tests.desk.proxy_client import proxy
from tests.desk.tui.scripted_terminal import terminal


async def test_a_side_effect_runs_once_when_it_is_allowed_and_not_by_keys_that_somebody_may_be_typing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QuestionScreen, "CALM", 3600)  # on a busy machine the keys come slowly
    async with terminal(folder) as person:
        await person.say("pay")
        ask = await person.asked()
        assert '"to": "ada"' in person.screen and '"amount": 5' in person.screen and "Pay someone." in person.screen
        await person.press(*"yallow", "enter", "space", "enter", "ctrl+j", "1")
        assert person.app.screen is ask
        assert person.paid == []
        await person.press_button("allow")
        await person.says("So it stands.")
        assert person.paid == ["ada 5"]


async def test_values_that_a_server_asks_for_begin_with_what_it_asks(folder: Path) -> None:
    form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    question = DeskQuestion(
        request="q",
        conversation="c",
        run="mcp_x",
        call_id="a",
        tool="x:elicit",
        description="For whom is the table?",
        arguments={},
        form=form,
        why="x asks",
    )
    async with terminal(folder) as person:
        person.app.push_screen(QuestionScreen(person.desk, question))
        await person.asked()
        shown = person.screen
        assert shown.index("For whom is the table?") < shown.index("because x asks") < shown.index('"properties"')
        assert "Answer…" in shown and "Allow once" not in shown


async def test_a_denied_call_does_not_run_and_the_model_reads_why(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.say("pay")
        await person.asked()
        await person.press_button("reason")
        await person.at(LineDialog)
        await person.type("too much")
        await person.press("enter")
        await person.says("So it stands.")
        assert person.paid == []
        assert person.cards[0].shown.outcome == "denied"
        result = person.cards[0].shown.result
        assert result is not None and "too much" in result.text


@pytest.mark.parametrize(("key", "paid"), [("a", ["ada 5"]), ("d", [])])
async def test_one_key_allows_or_denies_once_nobody_is_typing(folder: Path, key: str, paid: list[str]) -> None:
    async with terminal(folder) as person:
        await person.say("pay")
        ask = await person.asked()
        await person.until(lambda: ask.keys_count)
        await person.press(key)
        await person.says("So it stands.")
        assert person.paid == paid


async def test_edited_arguments_are_checked_and_then_run(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.say("pay")
        await person.asked()
        await person.press_button("edit")
        await person.at(JsonEditor)
        area = person.app.screen.query_one(TextArea)
        for wrong, why in (("{", "not JSON"), ('{"to": "ada", "amount": "five"}', "amount")):
            area.load_text(wrong)
            await person.press("ctrl+s")
            await person.until(lambda why=why: why in person.static("#problems"))  # type: ignore[misc]
            assert person.paid == []
        area.load_text('{"to": "bob", "amount": 2}')
        await person.press("ctrl+s")
        await person.says("So it stands.")
        assert person.paid == ["bob 2"]


async def test_always_sets_the_rule_that_was_chosen_and_the_next_call_asks_nobody(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.say("pay")
        await person.asked()
        await person.press_button("always")
        await person.at(PickDialog)
        await person.says("allow box:pay@sha256:")
        (folder / "approvals.toml").write_text("broken", encoding="utf-8")
        await person.press("enter")
        await person.says("approvals")  # why it cannot be kept; the question waits on
        await person.asked()
        assert person.paid == []
        (folder / "approvals.toml").unlink()
        await person.press_button("always")
        await person.at(PickDialog)
        await person.press("enter")
        await person.says("So it stands.")
        await person.idle()
        await person.say("pay again")
        await person.until(lambda: len(person.paid) == 2)
        await person.idle()
        assert person.app.screen is person.app.chat


async def test_looking_first_keeps_the_question_and_f7_goes_back_to_it(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.say("pay")
        await person.asked()
        await person.press("escape")
        await person.until(lambda: person.app.screen is person.app.chat)
        assert "waits for your approval" in person.screen
        await person.press("f7")
        await person.asked()
        await person.press_button("allow")
        await person.says("So it stands.")


async def test_a_call_that_was_put_off_is_asked_again_and_runs_once(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.say("pay")
        await person.asked()
        await person.press_button("later")
        await person.until(lambda: person.app.chat.state == "waiting" and person.app.screen is person.app.chat)
        await person.until(lambda: not person.desk.questions)
        await person.press("f7")
        await person.asked()
        await person.press_button("allow")
        await person.says("So it stands.")
        assert person.paid == ["ada 5"]


async def test_stopping_the_turn_closes_its_question(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.say("pay")
        await person.asked()
        await person.press_button("reason")
        await person.at(LineDialog)
        await person.desk.stop(person.app.chat.talk)
        await person.until(lambda: person.app.screen is person.app.chat)
        assert person.paid == []


async def test_a_secret_is_shown_nowhere(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.say("log in")
        await person.asked()
        assert "opensesame" not in person.screen and "ada" in person.screen
        await person.press_button("allow")
        await person.says("Done.")
        person.cards[0].focus()
        await person.press("enter")
        await person.says("welcome")
        assert "opensesame" not in person.screen


@pytest.mark.requirement("converser.alerts")
async def test_a_failed_tool_is_shown_at_once_and_its_turn_can_be_undone(folder: Path) -> None:
    async with terminal(folder) as person:
        bells: list[object] = []
        person.app.bell = lambda: bells.append(1)  # type: ignore[method-assign]
        await person.say("fail now")
        await person.says("⚠ box:fail failed")
        await person.says("the disk is full")
        await person.idle()
        assert len(bells) == 1
        await person.press("f6")
        await person.press("enter")  # Undo the turn
        prompt = person.app.chat.query_one(TextArea)
        await person.until(lambda: prompt.text == "fail now")
        await person.until(lambda: not person.cards and "⚠" not in person.screen)


@pytest.mark.requirement("converser.alerts")
async def test_after_a_failed_tool_the_words_can_be_edited_and_the_turn_goes_on(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.say("fail now")
        await person.says("⚠ box:fail failed")
        await person.press("f6", "tab", "enter")  # Edit and continue
        prompt = person.app.chat.query_one(TextArea)
        await person.until(lambda: prompt.text == "fail now" and prompt.has_focus)
        prompt.load_text("sum instead")
        await person.press("enter")
        await person.says("It is 3.")
        await person.idle()
        assert "⚠" not in person.screen and "sum instead" in person.screen
        assert [card.shown.name for card in person.cards] == ["box:add"]


@pytest.mark.requirement("converser.alerts")
async def test_a_failed_turn_is_shown_and_can_be_dismissed(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.say("break")
        await person.says("The model failed")
        await person.says("the service is down")
        await person.press("f6", "tab", "tab", "tab", "enter")  # Dismiss
        await person.until(lambda: "⚠" not in person.screen)
        assert "break" in person.screen


async def test_calls_of_a_proxy_beside_the_terminal_are_answered_there_one_after_the_other(folder: Path) -> None:
    async with terminal(folder, size=(100, 30)) as person, proxy(folder) as client:
        for text in ("one", "two"):
            await client.call_tool("note", {"text": text})
        await person.says("note of another program")
        await person.until(lambda: len(person.desk.asked_elsewhere) == 2)
        await person.press("f7")
        first = await person.asked()
        assert '"text": "one"' in person.screen and "Edit…" not in person.screen and "Always…" not in person.screen
        await person.press("escape")
        await person.press("f7")  # the one that was not looked at yet
        await person.until(lambda: '"text": "two"' in person.screen)
        await person.press_button("allow")
        await person.until(lambda: person.desk.asked_elsewhere == (first.question,))
        await person.press("f7")
        await person.asked()
        await person.desk.decide(first.question.request, "deny")  # as from elsewhere: the dialog closes
        await person.until(lambda: person.app.screen is person.app.chat)
        ran = [not (await client.call_tool("note", {"text": text})).is_error for text in ("one", "two")]

    assert ran == [False, True]
    assert (folder / "proxy" / "notes.txt").read_text() == "two\n"
