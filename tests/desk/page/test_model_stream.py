"""The page over a model's real wire: what is seen while the model writes, and what it is sent of a person's files."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.desk.page.chat_actions import answered, box, card, question, replies, said, say
from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import PATIENCE, PageNode
from tests.desk.page.scripted_model_service import ScriptedModelService, service

GIVE = """
(field, [event, files]) => {
  const held = new DataTransfer();
  for (const { name, type, text } of files) held.items.add(new File([text], name, { type }));
  const how = { bubbles: true, cancelable: true };
  field.dispatchEvent(event === "paste"
    ? new ClipboardEvent("paste", { ...how, clipboardData: held })
    : new DragEvent(event, { ...how, dataTransfer: held }));
}
"""
"""What a browser does when a person pastes or drops files."""


@pytest.fixture
def slow() -> Iterator[ScriptedModelService]:
    with service() as found:
        yield found


@pytest.fixture
def served(house: PageNode, slow: ScriptedModelService) -> Iterator[PageNode]:
    """By that service."""
    models = f'[models.slow]\nprovider = "vllm"\nmodel = "slow"\nbase_url = "{slow.url}"\n\n[services]'
    text = house.config.read_text(encoding="utf-8").replace('default_model = "scripted"', 'default_model = "slow"')
    house.config.write_text(text.replace("[services]", models), encoding="utf-8")
    with house.serve():
        yield house


@pytest.fixture
def page(served: PageNode, tab: Tab) -> Page:
    return tab(served)


def give(page: Page, event: str, **files: str) -> None:
    kinds = {"png": "image/png", "txt": "text/plain"}
    held = [{"name": name.replace("_", "."), "type": kinds[name[-3:]], "text": text} for name, text in files.items()]
    box(page).evaluate(GIVE, [event, held])


@pytest.mark.requirement("hearthnet.confirmation")
def test_notices_thoughts_and_arguments_are_seen_as_they_come(
    house: PageNode, slow: ScriptedModelService, page: Page
) -> None:
    slow.refuse()
    slow.begin()
    say(page, "write it down")
    expect(page.locator(".turn-notice")).to_contain_text("trying again")
    slow.say(reasoning_content="First I look where <b>it</b> goes.")
    thoughts = page.locator(".underway .reasoning")
    expect(thoughts).to_be_visible()
    thoughts.locator("summary").click()
    expect(thoughts.locator("pre")).to_have_text("First I look where <b>it</b> goes.")
    slow.say(content="I write ")
    expect(page.locator(".underway")).to_contain_text("I write")
    slow.call('{"path": "plan.txt", "te', name="write_note")
    shown = card(page, "notes:write_note")
    expect(shown).to_have_attribute("data-state", "writing")
    expect(shown.locator(".card-written")).to_have_text('{"path": "plan.txt", "te')
    expect(shown).to_contain_text("changes things")
    slow.call('xt": "rest and sleep')
    expect(shown.locator(".card-written")).to_have_text('{"path": "plan.txt", "text": "rest and sleep')
    slow.call('"}')
    slow.end("tool_calls")
    question(page).get_by_role("button", name="Allow once").click()
    slow.answer("It is written.")
    answered(page, "It is written.")
    expect(shown).to_have_attribute("data-state", "ok")
    expect(shown.locator(".card-written")).to_have_count(0)
    assert (house.kept / "plan.txt").read_text() == "rest and sleep"
    expect(replies(page).first).to_contain_text("I write")


def test_files_that_are_pasted_and_dropped_are_what_the_model_is_sent(slow: ScriptedModelService, page: Page) -> None:
    give(page, "paste", list_txt="eggs and <milk>")
    give(page, "dragover", dot_png="\N{PERSONAL COMPUTER}")
    expect(page.locator(".composer.dropping")).to_be_visible()
    give(page, "drop", dot_png="\N{PERSONAL COMPUTER}")
    expect(page.locator(".dropping")).to_have_count(0)
    expect(page.get_by_label("Attached files").get_by_role("listitem")).to_have_count(2)
    say(page, "what is this?")
    slow.answer("Eggs.")
    answered(page, "Eggs.")
    expect(said(page)).to_contain_text("dot.png")
    expect(page.locator(".thread")).to_contain_text("list.txt")
    sent = json.dumps(slow.asked.get(timeout=PATIENCE)["messages"])
    assert "what is this?" in sent and "eggs and <milk>" in sent
    assert base64.b64encode("\N{PERSONAL COMPUTER}".encode()).decode() in sent
