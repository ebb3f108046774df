"""A person at the page decides about exactly what runs, and hears of an answer that somebody gave elsewhere."""

from __future__ import annotations

import subprocess

import pytest
from playwright.sync_api import expect

from handrail.journal.auditing import audit
from handrail.journal.reader import JournalReader
from tests.cli.journal_fixtures import command, environment
from tests.desk.page.chat_actions import answered, begin_anew, card, press, question, say
from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import PageNode
from tests.desk.proxy_client import call_note

TEXTS = ["-----BEGIN PRIVATE KEY-----; rm -rf ~", "https://x:y@evil.example && rm -rf ~", "[redacted] rm -rf ~"]


def confirm(house: PageNode, decision: str) -> None:
    """Answer the one question that waits, as somebody else does, in a process of their own."""
    with JournalReader(house.journal) as reader:
        (asked,) = reader.pending()
    told = command("--journal", str(house.journal), "confirm", decision, asked.request, "--by", "grace")
    subprocess.run(told, check=True, env=environment(), capture_output=True)


@pytest.mark.parametrize("text", TEXTS)
def test_text_that_looks_like_a_secret_is_shown_in_full_and_is_what_runs(served: PageNode, tab: Tab, text: str) -> None:
    call = {"name": "write_note", "arguments": {"path": "odd.txt", "text": text}}
    served.reply("odd one", {"text": "", "calls": [call]}, "It is odd.")
    page = tab(served)
    say(page, "odd one")
    expect(question(page)).to_contain_text(f'"text": "{text}"')

    question(page).get_by_role("button", name="Allow once").click()

    answered(page, "It is odd.")
    assert (served.kept / "odd.txt").read_text() == text


def test_a_denial_from_the_command_line_closes_the_dialog_and_nothing_runs(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "write the note")
    expect(question(page)).to_be_visible()

    confirm(served, "deny")

    expect(question(page)).to_be_hidden()
    answered(page, "It is written.")  # which is what the script says whatever happened
    expect(card(page, "notes:write_note")).to_have_attribute("data-state", "denied")
    expect(card(page, "notes:write_note")).to_contain_text("grace denied the call to 'write_note'")
    assert not (served.kept / "plan.txt").exists()
    assert audit(served.journal).ok


def test_an_allow_from_the_command_line_lets_the_call_at_the_page_run(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "write the note")
    expect(question(page)).to_be_visible()

    confirm(served, "allow")

    expect(question(page)).to_be_hidden()
    answered(page, "It is written.")
    assert (served.kept / "plan.txt").read_text() == "rest"


def test_the_alert_of_a_question_elsewhere_covers_nothing_and_names_its_conversation(
    served: PageNode, tab: Tab
) -> None:
    page = tab(served)
    say(page, "hello")
    answered(page, "Hello!")
    begin_anew(page)
    other = tab(served)
    say(other, "sign in")
    expect(question(other)).to_be_visible()
    alert = page.get_by_role("alert").filter(has_text="sign_in waits for your approval")
    expect(alert).to_contain_text("in “sign in”")
    above, below = alert.bounding_box(), page.get_by_role("main").bounding_box()
    assert above is not None and below is not None and above["y"] + above["height"] <= below["y"] + 1
    alert.get_by_role("button", name="Review").click()
    expect(question(page)).to_contain_text('"user": "ada"')
    press(page, "d")
    expect(alert).to_have_count(0)


def test_a_call_of_a_proxy_beside_the_page_is_allowed_and_denied_on_the_page(served: PageNode, tab: Tab) -> None:
    """The proxy is a process of its own, and ends after each call, as a client does that is closed."""
    page = tab(served)
    ran = [call_note(served.folder, "<b>one</b>")]
    toast = page.get_by_role("alert").filter(has_text="note waits for your approval")
    expect(toast).to_contain_text("in “run_")  # it is in no conversation
    toast.get_by_role("button", name="Review").click()
    expect(question(page)).to_contain_text('"text": "<b>one</b>"')
    expect(question(page).get_by_role("button", name="Edit")).to_have_count(0)
    question(page).get_by_role("button", name="Later").click()  # and it is told again
    toast.get_by_role("button", name="Review").click()
    question(page).get_by_role("button", name="Allow once").click()
    expect(question(page)).to_be_hidden()
    ran += [call_note(served.folder, "<b>one</b>"), call_note(served.folder, "two")]

    toast.get_by_role("button", name="Review").click()
    confirm(served, "deny")
    expect(question(page)).to_be_hidden()
    expect(toast).to_have_count(0)

    assert ran == [False, True, False]
    assert (served.folder / "proxy" / "notes.txt").read_text() == "<b>one</b>\n"
    assert audit(served.journal).ok
