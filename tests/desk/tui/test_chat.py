"""A conversation in the terminal program: words, panes of calls, stopping, taking back, what is long or hostile."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from pathlib import Path

import pytest
from textual.widgets import Log, OptionList

from handrail.core.messages import AssistantMessage, Conversation
from handrail.desk.tui.chat import PromptArea
from handrail.desk.tui.dialogs import ConfirmDialog, FullTextDialog, LineDialog, PickDialog, PickSomeDialog
from handrail.desk.tui.messages import MessageWidget
from handrail.desk.tui.transcript import TranscriptView
from tests.desk.tui.scripted_terminal import terminal

CONTROLS = ("\x1b", "\x07", "\u202e", "\u202c", "\u200b", "\x9b")


async def test_an_empty_conversation_names_the_tools_and_an_example_is_written_for_the_person(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.says("What would you like to do?")
        assert "7 tools are available: box:add" in person.screen
        await person.press("tab", "enter")
        prompt = person.app.chat.query_one(PromptArea)
        await person.until(lambda: prompt.text == "Count, and wait at half" and prompt.has_focus)
        prompt.clear()
        await person.say("hello")
        await person.says("Hello!")
        await person.until(lambda: "What would you like to do?" not in person.screen)
        await person.press("ctrl+n")
        await person.says("What would you like to do?")


async def test_words_come_as_markdown_and_a_call_has_a_pane_with_its_result(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.say("sum please")
        await person.says("It is 3.")
        await person.idle()
        assert "Let me see." in person.screen  # and not **see**
        [card] = person.cards
        assert "box:add" in person.screen and "a=1 b=2" in person.screen and "ok" in person.screen
        assert not card.unfolded
        card.focus()
        await person.press("enter")
        await person.says('"a": 1')
        await person.says("result")
        assert card.unfolded
        await person.press("enter")
        await person.until(lambda: '"a": 1' not in person.screen)


async def test_the_pane_shows_progress_while_the_tool_works_and_esc_stops_the_turn(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.say("wait")
        await person.says("half way")
        assert "50%" in person.screen and "Esc stops it" in person.screen
        await person.until(lambda: re.search(r"running \d+ s", person.screen) is not None)
        await person.press("escape")
        await person.idle()
        await person.says("cancelled")
        assert "working" not in person.screen
        await person.say("hello")
        await person.says("Hello!")


async def test_a_tool_that_goes_on_ends_in_its_pane_and_refused_words_are_not_lost(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.say("wait")
        await person.says("half way")
        await person.type("too early")
        await person.press("enter")
        prompt = person.app.chat.query_one(PromptArea)
        await person.until(lambda: prompt.text == "too early" and len(person.app._notifications) == 1)
        sys.modules["tui_tools"].going_on.set()
        await person.says("Waited.")
        await person.idle()
        assert person.cards[0].shown.outcome == "ok"


async def test_a_new_line_does_not_send(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.type("hello")
        await person.press("ctrl+j")
        await person.type("you")
        assert person.app.chat.query_one(PromptArea).text == "hello\nyou"
        await person.press("enter")
        await person.says("Hello!")
        assert person.app.chat.query_one(PromptArea).text == ""


async def test_undo_takes_back_to_any_point_and_gives_the_words_to_be_changed(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.say("hello one")
        await person.idle()
        await person.say("hello two")
        await person.until(lambda: len(person.app.chat.query(MessageWidget)) == 4)
        await person.idle()
        await person.press("ctrl+z")
        await person.at(PickDialog)
        assert "stay in the record" in person.screen
        await person.press("down", "enter")
        await person.until(lambda: person.app.chat.query_one(PromptArea).text == "hello one")
        await person.until(lambda: not person.app.chat.query(MessageWidget))
        await person.press("enter")
        await person.says("Hello!")


async def test_hostile_text_is_shown_and_does_nothing(folder: Path) -> None:
    async with terminal(folder, size=(110, 40)) as person:
        await person.say("hostile")
        await person.says("Seen.")
        await person.idle()
        person.cards[0].focus()
        await person.press("enter")
        await person.says("<script>alert(1)</script>")
        shown = person.screen
        assert not any(letter in shown for letter in CONTROLS)
        assert "\\x1b[2J" in shown and "\\u202egpj.exe" in shown and "z\\u200bw" in shown
        assert "[red]no markup[/]" in shown and "[@click=app.quit]x[/]" in shown
        assert "<b>bold</b>" in shown  # of the model: HTML stays text, and a reference is no escape
        await person.press("w")
        await person.at(FullTextDialog)
        assert not any(letter in person.screen for letter in CONTROLS)


async def test_a_megabyte_is_folded_and_can_be_read_to_its_end(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.say("flood")
        await person.says("Much.")
        await person.idle()
        assert person.screen.count("0123456789abcde") <= 1
        person.cards[0].focus()
        await person.press("enter")
        await person.until(lambda: "0123456789abcde\n" in person.screen)
        assert person.app.chat.query_one(TranscriptView).virtual_size.height < 120
        await person.press("w")
        await person.at(FullTextDialog)
        assert person.app.screen.query_one(Log).line_count >= 65_536
        await person.press("end")
        await person.until(lambda: person.app.screen.query_one(Log).scroll_y > 65_000)


async def test_a_thousand_messages_are_usable(folder: Path) -> None:
    talk = Conversation()
    for number in range(500):
        talk = talk.say(f"question {number}").add(AssistantMessage(f"answer **{number}**"))
    async with terminal(folder, talk) as person:
        await person.says("answer 499")
        assert len(person.app.chat.query(MessageWidget)) == 40
        assert person.app.chat.query_one(TranscriptView).first == 960
        while person.app.chat.query_one(TranscriptView).first > 920:
            await person.press("pageup")
            await person.pilot.pause()
        assert "question 4" in person.screen
        await person.press("ctrl+z")
        await person.at(PickDialog)
        assert person.app.screen.query_one(OptionList).option_count == 100
        await person.press("escape")
        await person.until(lambda: person.app.screen is person.app.chat)
        await person.say("hello")
        await person.says("Hello!")


async def test_another_model_and_other_tools_are_chosen_by_keys(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.press("f4")
        await person.at(PickDialog)
        await person.press("down", "enter")
        await person.says("other")
        await person.press("f5")
        await person.at(PickSomeDialog)
        await person.press("down", "space", "enter")
        await person.until(lambda: "but 1" in person.static("#about"))
        await person.press("f5")
        await person.at(PickSomeDialog)
        await person.press("space", "enter")
        await person.until(lambda: "odd" in person.static("#about"))
        assert "box" not in person.static("#about")


async def test_a_file_goes_with_the_words(folder: Path) -> None:
    (folder / "notes.txt").write_text("remember the milk", encoding="utf-8")
    async with terminal(folder) as person:
        await person.press("ctrl+t")
        await person.at(LineDialog)
        await person.type("nothing.txt")
        await person.press("enter")
        await person.says("cannot be read")
        await person.press("ctrl+t")
        await person.at(LineDialog)
        await person.type("notes.txt")
        await person.press("enter")
        await person.says("📎 notes.txt")
        await person.say("hello")
        await person.says("remember the milk")


async def test_leaving_while_a_turn_works_asks_first(folder: Path) -> None:
    async with terminal(folder) as person:
        await person.say("wait")
        await person.says("half way")
        await person.press("ctrl+q")
        await person.at(ConfirmDialog)
        await person.press("enter")  # Cancel has the focus
        await person.until(lambda: person.app.screen is person.app.chat)
        assert person.app.is_running
        await person.press("escape")
        await person.idle()
        await person.press("ctrl+q")
        await person.until(lambda: not person.app.is_running)


async def test_it_fits_in_80_by_24_in_every_theme_and_without_colour(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with terminal(folder) as person:
        await person.say("sum please")
        await person.says("It is 3.")
        await person.idle()
        for theme in ("textual-light", "ansi-dark", "ansi-light", "textual-dark"):
            person.app.theme = theme
            await person.pilot.pause()
            assert "It is 3." in person.screen
        person.cards[0].focus()
        await person.says("w Whole")
        shown = person.screen.splitlines()[-1]
        for keys in (
            "f1 Help",
            "^o Talks",
            "f2 Tools",
            "f3 Proof",
            "f3 Proof",
            "^z Undo",
            "^n New",
            "^q Quit",
        ):
            assert keys in shown, keys
        await person.press("f1")
        await person.says("Ctrl+J")


async def test_a_bug_ends_the_program_and_shows_no_values(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def bug() -> None:
        password = "-".join(("open", "sesame"))
        raise ZeroDivisionError(len(password))

    with pytest.raises(ZeroDivisionError):
        async with terminal(folder) as person:
            person.app.call_later(bug)
            await person.until(lambda: not person.app.is_running)
    told = capsys.readouterr().err
    assert "ZeroDivisionError" in told and "in bug" in told
    assert "open-sesame" not in told


@pytest.mark.parametrize("steps", range(2, 8))
async def test_a_redraw_that_is_cancelled_half_way_lets_the_program_end(folder: Path, steps: int) -> None:
    async with terminal(folder, Conversation().say("one").add(AssistantMessage("two"))) as person:
        await person.says("two")
        redraw = asyncio.ensure_future(person.app.chat.query_one(TranscriptView).renew(0, ()))
        for _ in range(steps):
            await asyncio.sleep(0)
        redraw.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await redraw
        await person.until(lambda: not person.app.chat.query(MessageWidget))
