"""A person talks with a model at the page: what they see of it, and what they can do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from handrail.core.messages import AssistantMessage, Conversation, Text, UserMessage
from handrail.sessions.store.conversations import ConversationStore
from tests.desk.page.chat_actions import (
    answered,
    banner,
    begin_anew,
    box,
    card,
    conversation_titles,
    press,
    question,
    replies,
    said,
    say,
    use_conversation_menu,
)
from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import HOSTILE, PageNode

TYPED = """
async () => {
  const { ask } = await import("/page/views/chat/question.js");
  const given = [];
  const decide = async ({decision}) => { given.push(decision); document.body.dataset.given = decision; };
  ask({request: "r", tool: "t", description: "", arguments: {}, written: "{}"}, 0, decide, () => {});
  for (const key of "adea") document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
  return [...given, ...document.querySelectorAll(".word-form")];
}
"""
RUN = "run_00000000000000000000000000000001"
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


def test_the_model_answers_and_answers_again_when_it_is_asked_to(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "hello there")
    answered(page, "Hello! What shall we do?")
    expect(said(page)).to_contain_text("hello there")
    expect(conversation_titles(page)).to_contain_text("hello there")
    expect(box(page)).to_have_value("")
    expect(page.get_by_role("heading", level=1)).to_have_text("hello there")
    replies(page).last.get_by_role("button", name="Ask again").click()
    answered(page, "Hello! What shall we do?")
    expect(said(page)).to_have_count(1)
    expect(replies(page)).to_have_count(1)


def test_markdown_becomes_what_it_means_and_html_stays_text(served: PageNode, tab: Tab) -> None:
    served.reply("plan", "## Plan\n\n1. **Rest**\n2. `sleep`\n\n<b>not bold</b>")
    page = tab(served)
    say(page, "the plan")
    answered(page, "<b>not bold</b>")
    expect(replies(page).get_by_role("heading", name="Plan")).to_be_visible()
    expect(replies(page).get_by_role("listitem")).to_have_count(2)
    expect(replies(page).locator("b")).to_have_count(0)


def test_a_call_is_a_card_with_its_arguments_its_result_and_the_way_to_its_proof(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "read the note")
    answered(page, "You need bread")
    shown = card(page, "notes:read_note")
    expect(shown).to_have_attribute("data-state", "ok")
    expect(shown).to_contain_text("path: shopping.txt")
    expect(shown.locator(".card-time")).to_have_text(re.compile(r"\d.* (µs|ms|s)$"))
    expect(shown.locator(".card-body")).to_be_hidden()
    shown.locator("summary").click()
    expect(shown.locator(".card-body")).to_contain_text("bread, milk and tea")
    run = page.url.rpartition("/")[2]
    expect(shown.get_by_role("link", name="Show in Proof")).to_have_attribute("href", f"#/proof/{run}")


def test_a_card_shows_a_number_with_all_its_digits(served: PageNode, tab: Tab) -> None:
    served.reply("count", {"text": "", "calls": [_call("long_job", steps=9007199254740993, why=["1"])]}, "So many.")
    page = tab(served)
    say(page, "count")
    answered(page, "So many.")
    shown = card(page, "odd:long_job")
    shown.locator("summary").click()
    expect(shown.locator(".card-body .json").first).to_have_text(
        '{\n  "steps": 9007199254740993,\n  "why": [\n    "1"\n  ]\n}'
    )


@pytest.mark.requirement("hearthnet.progress")
def test_a_long_job_says_how_far_it_is_while_the_model_waits(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "do the work")
    served.gate.wait()
    shown = card(page, "odd:long_job")
    expect(shown).to_have_attribute("data-state", "running")
    expect(shown).to_contain_text("step 1 of 3")
    served.gate.step()
    expect(shown).to_contain_text("step 2 of 3")
    expect(shown.get_by_role("progressbar", name="Progress")).to_have_attribute("value", "1")
    expect(shown.locator(".card-time")).to_have_text(re.compile(r"^\d+\.\d s$"))
    served.gate.step(2)
    answered(page, "The work is done.")
    expect(shown).to_have_attribute("data-state", "ok")
    expect(shown.get_by_role("progressbar")).to_have_count(0)


@pytest.mark.requirement("hearthnet.confirmation")
def test_a_side_effect_runs_only_once_a_person_allows_it_and_only_that_once(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "write the note")
    dialog = question(page)
    expect(dialog).to_contain_text('"path": "plan.txt"')
    expect(dialog).to_contain_text('"text": "rest"')
    assert not (served.kept / "plan.txt").exists()
    page.keyboard.press("Enter")
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Allow once").click()
    answered(page, "It is written.")
    assert (served.kept / "plan.txt").read_text() == "rest"
    expect(card(page, "notes:write_note")).to_contain_text("changes things")
    say(page, "write the note once more")
    expect(question(page)).to_be_visible()
    press(page, "a")
    expect(card(page, "notes:write_note").last).to_have_attribute("data-state", "ok")
    expect(page.get_by_text("Somebody else answered")).to_have_count(0)


@pytest.mark.requirement("hearthnet.confirmation")
def test_what_is_denied_does_not_run_and_the_model_reads_why(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "write the note")
    expect(question(page)).to_be_visible()
    press(page, "r")
    page.keyboard.type("not on a Sunday")
    page.keyboard.press("Enter")
    answered(page, "It is written.")
    shown = card(page, "notes:write_note")
    expect(shown).to_have_attribute("data-state", "denied")
    expect(shown).to_contain_text("not on a Sunday")
    expect(banner(page)).to_be_hidden()
    assert not (served.kept / "plan.txt").exists()


def test_one_key_denies_without_a_reason(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "write the note")
    expect(question(page)).to_be_visible()
    press(page, "d")
    answered(page, "It is written.")
    expect(card(page, "notes:write_note")).to_have_attribute("data-state", "denied")
    assert not (served.kept / "plan.txt").exists()


@pytest.mark.requirement("hearthnet.confirmation")
def test_arguments_can_be_edited_and_what_does_not_fit_is_refused_with_the_reasons(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "write the note")
    dialog = question(page)
    dialog.get_by_role("button", name="Edit").click()
    field = dialog.get_by_role("textbox", name="Arguments, as JSON")
    field.fill('{"path": ')
    dialog.get_by_role("button", name="Run with these").click()
    expect(dialog).to_contain_text("This is not JSON")
    field.fill('{"path": "plan.txt", "text": 7}')
    dialog.get_by_role("button", name="Run with these").click()
    expect(dialog.get_by_text("do not fit")).to_be_visible()
    field.fill('{"path": "other.txt", "text": "sleep"}')
    dialog.get_by_role("button", name="Run with these").click()
    answered(page, "It is written.")
    expect(card(page, "notes:write_note")).to_contain_text('it ran with {"path":"other.txt","text":"sleep"}')
    assert (served.kept / "other.txt").read_text() == "sleep"
    assert not (served.kept / "plan.txt").exists()


def test_a_rule_that_was_set_in_the_dialog_holds_for_the_next_call(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "write the note")
    dialog = question(page)
    dialog.get_by_role("button", name="Always allow notes:write_note when path is “plan.txt”").click()
    narrowest = dialog.get_by_role("radio").first
    expect(narrowest).to_be_checked()
    sentence = "Allow notes:write_note whenever path is “plan.txt” and text is “rest”."
    expect(dialog.get_by_label(sentence)).to_be_checked()
    expect(dialog).to_contain_text(
        "Allow notes:write_note whenever path is “plan.txt”. Any value is allowed for: text."
    )
    expect(dialog).to_contain_text("Allow notes:write_note with any arguments.")
    expect(dialog).to_contain_text("until you revoke it in Settings or the tool changes")
    written = dialog.locator(".rule-text code").first
    expect(written).to_be_hidden()
    dialog.get_by_text("The text of the rule").first.click()
    expect(written).to_have_text(re.compile(r"^allow notes:write_note@sha256:\w+ path=plan.txt"))
    dialog.get_by_role("button", name="Set this rule and allow").click()
    answered(page, "It is written.")
    say(page, "write the note once more")
    expect(replies(page).filter(has_text="It is written.")).to_have_count(2)
    expect(card(page, "notes:write_note").last).to_have_attribute("data-state", "ok")
    page.goto(f"{served.url}/#/tools/notes:write_note")
    expect(page.get_by_text("of notes · notes.toml")).to_be_visible()
    expect(page.get_by_text(re.compile(r"^allow notes:write_note@sha256:\w+ path=plan.txt"))).to_be_visible()


def test_a_question_that_is_put_off_waits_at_its_card(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "write the note")
    expect(question(page)).to_be_visible()
    page.keyboard.press("Escape")
    expect(question(page)).to_be_hidden()
    shown = card(page, "notes:write_note")
    expect(shown).to_have_attribute("data-state", "asked")
    shown.get_by_role("button", name="Answer").click()
    question(page).get_by_role("button", name="Allow once").click()
    answered(page, "It is written.")


def test_a_secret_is_not_shown_in_the_question(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "sign in")
    expect(question(page)).to_contain_text('"user": "ada"')
    assert "correct-horse" not in page.content()
    press(page, "a")
    answered(page, "You are in.")
    assert "correct-horse" not in page.content()


@pytest.mark.requirement("converser.alerts")
def test_a_failed_tool_is_shown_at_once_and_the_person_rolls_back_edits_and_goes_on(served: PageNode, tab: Tab) -> None:
    served.reply(
        "both", {"text": "", "calls": [_call("fail", why="the printer is on fire"), _call("long_job", steps=1)]}
    )
    page = tab(served)
    say(page, "hello first")
    answered(page, "Hello!")
    say(page, "do both")
    served.gate.wait()
    # The turn still goes on: it is said at once and not at the end.
    expect(banner(page)).to_contain_text("the printer is on fire")
    expect(banner(page)).to_contain_text("NO_LUCK")
    expect(page.get_by_role("alert").filter(has_text="odd:fail failed")).to_be_visible()
    expect(page.locator(".toast-alert")).to_have_count(0)
    expect(card(page, "odd:fail")).to_have_attribute("data-state", "failed")
    expect(card(page, "odd:long_job")).to_have_attribute("data-state", "running")
    banner(page).get_by_role("button", name="Undo").click()
    served.gate.gone()
    expect(said(page)).to_have_count(1)
    expect(banner(page)).to_be_hidden()
    expect(page.get_by_role("alert").filter(has_text="failed")).to_have_count(0)
    expect(box(page)).to_have_value("do both")
    say(page, "please fail")
    answered(page, "It did not work.")
    banner(page).get_by_role("button", name="Edit and continue").click()
    expect(box(page)).to_have_value("please fail")
    say(page, "read the note")
    answered(page, "You need bread")
    expect(said(page)).to_have_count(2)
    expect(said(page).last).to_contain_text("read the note")
    expect(card(page, "odd:fail")).to_have_count(0)
    expect(banner(page)).to_be_hidden()


def test_after_a_model_that_gave_no_answer_one_can_go_on_or_let_it_be(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "break")
    expect(banner(page)).to_contain_text("the service is away")
    expect(banner(page)).to_contain_text("The model gave no answer")
    first = banner(page).get_attribute("data-alert")
    banner(page).get_by_role("button", name="Continue", exact=True).click()
    expect(page.locator(f"[data-alert]:not([data-alert='{first}'], [data-alert=''])")).to_be_visible()
    expect(banner(page)).to_contain_text("the service is away")
    banner(page).get_by_role("button", name="Dismiss").click()
    expect(banner(page)).to_be_hidden()
    expect(page.locator(".toast-alert")).to_have_count(0)


def test_esc_twice_stops_what_is_under_way(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "do the work")
    served.gate.wait()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    box(page).press("Escape")
    expect(page.get_by_text("Press Esc again to stop.")).to_be_visible()
    box(page).press("Escape")
    served.gate.gone()
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    expect(card(page, "odd:long_job")).to_have_attribute("data-state", "stopped")
    say(page, "hello again")
    answered(page, "Hello!")


def test_a_message_can_be_taken_back_edited_and_forked_from(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "hello one")
    answered(page, "Hello!")
    say(page, "read the note")
    answered(page, "You need bread")
    first = page.url
    said(page).last.get_by_role("button", name="Fork from here").click()
    expect(said(page)).to_have_count(1)
    expect(box(page)).to_have_value("read the note")
    assert page.url != first
    expect(conversation_titles(page)).to_have_count(2)
    page.goto(first)
    expect(said(page)).to_have_count(2)
    said(page).first.get_by_role("button", name="Edit").click()
    say(page, "hello two")
    expect(said(page)).to_have_count(1)
    expect(said(page)).to_contain_text("hello two")
    answered(page, "Hello!")
    said(page).last.get_by_role("button", name="Undo to here").click()
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(said(page)).to_have_count(0)
    expect(box(page)).to_have_value("hello two")


def test_after_an_undo_the_page_says_what_stays_done(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "write the note")
    expect(question(page)).to_be_visible()
    press(page, "a")
    answered(page, "It is written.")
    said(page).last.get_by_role("button", name="Undo to here").click()
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(said(page)).to_have_count(0)
    told = page.get_by_role("alert").filter(has_text="not reversed")
    expect(told).to_contain_text("notes:write_note (path: plan.txt · text: rest): done")
    assert (served.kept / "plan.txt").read_text() == "rest"


def test_two_tabs_see_the_same_and_a_question_is_answered_once(served: PageNode, tab: Tab) -> None:
    one = tab(served)
    say(one, "hello")
    answered(one, "Hello!")
    other = tab(served, f"#/chat/{one.url.rpartition('/')[2]}", beside=one)
    expect(replies(other)).to_contain_text("Hello!")
    say(other, "write the note")
    expect(question(one)).to_be_visible()
    question(other).get_by_role("button", name="Allow once").click()
    expect(question(one)).to_be_hidden()
    expect(one.get_by_text("Somebody else answered")).to_be_visible()
    for page in (one, other):
        answered(page, "It is written.")


def test_after_a_restart_the_page_goes_on_where_it_was(served: PageNode, tab: Tab) -> None:
    page = tab(served, allow=("WebSocket",))
    say(page, "hello")
    answered(page, "Hello!")
    served.stop()
    expect(page.get_by_text("Connection lost. Trying again")).to_be_visible()
    ConversationStore(served.journal.parent).save(
        RUN, Conversation((UserMessage((Text("by the way"),)),)), title="Elsewhere"
    )
    box(page).fill("read the note")
    expect(page.get_by_role("button", name="Send")).to_be_disabled()
    served.start()
    expect(page.get_by_text("Connection lost. Trying again")).to_be_hidden()
    expect(box(page)).to_have_value("read the note")
    page.get_by_role("button", name="Send").click()
    answered(page, "You need bread")
    expect(said(page)).to_have_count(2)
    expect(conversation_titles(page).filter(has_text="Elsewhere")).to_be_visible()


def test_a_turn_goes_on_while_nobody_looks(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "do the work")
    served.gate.wait()
    expect(card(page, "odd:long_job")).to_have_attribute("data-state", "running")
    page.reload()
    expect(card(page, "odd:long_job")).to_have_attribute("data-state", "running")
    served.gate.step(3)
    answered(page, "The work is done.")


def test_conversations_are_searched_renamed_and_deleted(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "hello")
    answered(page, "Hello!")
    begin_anew(page)
    say(page, "read the note")
    answered(page, "You need bread")
    expect(conversation_titles(page)).to_have_count(2)
    page.get_by_role("searchbox", name="Search conversations").fill("milk")
    expect(conversation_titles(page)).to_have_count(1)
    expect(conversation_titles(page)).to_contain_text("read the note")
    page.get_by_role("searchbox", name="Search conversations").fill("")
    expect(conversation_titles(page)).to_have_count(2)
    use_conversation_menu(page, "read the note", "Rename")
    page.get_by_role("textbox", name="Title").fill("Shopping")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Shopping")
    use_conversation_menu(page, "Shopping", "Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(conversation_titles(page)).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_have_text("New conversation")


def test_a_conversation_is_shared_as_a_file_and_taken_from_it(served: PageNode, tab: Tab, tmp_path: Path) -> None:
    page = tab(served)
    say(page, "read the note")
    answered(page, "You need bread")
    with page.expect_download() as given:
        use_conversation_menu(page, "read the note", "Export to a file")
    given.value.save_as(tmp_path / "shared")
    page.locator("nav input[type=file]").set_input_files(tmp_path / "shared")
    expect(conversation_titles(page)).to_have_count(2)
    expect(replies(page).last).to_contain_text("You need bread")
    expect(card(page, "read_note")).to_have_attribute("data-state", "ok")


def test_what_a_tool_gives_is_shown_and_does_nothing(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "hostile")
    answered(page, "That was odd.")
    shown = card(page, "odd:hostile")
    shown.locator("summary").click()
    expect(shown.locator(".card-body")).to_contain_text("<script>window.stolen = 1</script>")
    expect(shown.locator(".card-body")).to_contain_text("\\u202e")
    assert page.evaluate("window.stolen") is None
    assert not set(page.inner_text("main")) & {each for each in HOSTILE if each < " " or each > "~"}


def test_a_megabyte_is_shown_piece_by_piece(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "huge")
    answered(page, "That was long.")
    shown = card(page, "odd:huge")
    shown.locator("summary").click()
    expect(shown.locator(".card-body")).to_contain_text("line 000000")
    assert page.evaluate("document.body.textContent.length") < 60_000


def test_of_a_long_conversation_the_end_is_shown_and_the_rest_comes_as_one_goes_there(
    served: PageNode, tab: Tab
) -> None:
    said = [
        message
        for n in range(100)
        for message in (UserMessage((Text(f"question {n}"),)), AssistantMessage(f"answer {n}"))
    ]
    ConversationStore(served.journal.parent).save(RUN, Conversation(tuple(said)), title="Long")
    page = tab(served, f"#/chat/{RUN}")
    expect(replies(page).last).to_be_in_viewport()
    expect(replies(page).last).to_contain_text("answer 99")
    first = 200 - page.locator("[data-index]").count()
    assert first >= 80
    page.get_by_role("region", name="Messages").press("Home")
    expect(page.locator(f"[data-index='{first - 5}']")).to_be_attached()
    assert page.locator(".thread").evaluate("thread => thread.scrollTop") > 0
    page.get_by_role("button", name="Jump to the newest").click()
    expect(replies(page).last).to_be_in_viewport()


def test_at_phone_width_the_list_is_a_drawer_and_nothing_is_cut_off(served: PageNode, tab: Tab) -> None:
    page = tab(served, **PHONE)
    say(page, "write the note")
    question(page).get_by_role("button", name="Allow once").tap()
    answered(page, "It is written.")
    expect(conversation_titles(page)).to_be_hidden()
    page.get_by_role("button", name="Conversations").tap()
    expect(conversation_titles(page)).to_be_visible()
    page.get_by_role("link", name="New conversation").tap()
    expect(conversation_titles(page)).to_be_hidden()
    assert _fits(page)


def test_a_conversation_that_is_not_there_is_said_to_be_none(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/chat/run_nobody")
    expect(page.get_by_role("heading", name="There is no such conversation")).to_be_visible()


def test_the_chat_speaks_german(served: PageNode, tab: Tab) -> None:
    page = tab(served, locale="de-DE")
    page.get_by_role("textbox", name="Sagen Sie etwas").fill("write the note")
    page.get_by_role("button", name="Senden").click()
    page.get_by_role("button", name="Einmal erlauben").click()
    expect(replies(page).last).to_contain_text("It is written.")
    expect(card(page, "notes:write_note")).to_contain_text("ändert etwas")


def test_a_letter_that_is_typed_as_a_question_opens_allows_nothing(blank: Page) -> None:
    assert blank.evaluate(TYPED) == []
    press(blank, "a")
    expect(blank.locator("body")).to_have_attribute("data-given", "allow")


def _fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def _call(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}
