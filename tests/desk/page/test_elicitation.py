"""An MCP server asks the person at the page for values in mid-call: in a form, where they speak with the model."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Locator, Page, expect

from handrail.mcp.values import Endpoint
from tests.desk.page.chat_actions import answered, card, say
from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import PageNode

SERVER = '''\
"""A server with one tool, that asks before it answers."""

import json
import sys

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "description": "Whose table it is."},
        "guests": {"type": "integer", "minimum": 1, "maximum": 8, "default": 2},
        "window": {"type": "boolean"},
    },
    "required": ["name", "guests"],
}


def tell(**said):
    print(json.dumps({"jsonrpc": "2.0", **said}), flush=True)


asked = None
for line in sys.stdin:
    message = json.loads(line)
    id = message.get("id")
    match message.get("method"):
        case "initialize":
            about = {"name": "tables", "version": "1"}
            tell(id=id, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about})
        case "tools/list":
            hints = {"readOnlyHint": True}
            tell(id=id, result={"tools": [{"name": "book", "inputSchema": {"type": "object"}, "annotations": hints}]})
        case "tools/call":
            asked = id
            params = {"message": "For <b>whom</b>?", "requestedSchema": FORM}
            tell(id="ask-1", method="elicitation/create", params=params)
        case None if id == "ask-1":
            tell(id=asked, result={"content": [{"type": "text", "text": "got " + json.dumps(message["result"])}]})
        case _ if id is not None:
            tell(id=id, error={"code": -32601, "message": "no such method"})
'''


@pytest.fixture
def served(house: PageNode) -> Iterator[PageNode]:
    """With a server that a person has agreed to."""

    async def consent(server: str, endpoint: Endpoint, why: str) -> bool:
        return True

    (house.folder / "tables.py").write_text(SERVER, encoding="utf-8")
    command = json.dumps([sys.executable, str(house.folder / "tables.py")])
    text = house.config.read_text(encoding="utf-8")
    house.config.write_text(text.replace("[services]", f"[mcp.tables]\ncommand = {command}\n\n[services]"))
    house.person = replace(house.person, consent=consent)
    house.reply("book", {"calls": [{"name": "tables:book", "arguments": {}}]}, "Booked.")
    with house.serve():
        yield house


def form(page: Page) -> Locator:
    return page.get_by_role("dialog", name=re.compile("asks you something"))


@pytest.mark.requirement("converser.mcp-more")
def test_what_a_server_asks_for_is_a_form_and_its_answer_goes_back(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    say(page, "book a table")
    dialog = form(page)
    expect(dialog).to_contain_text("For <b>whom</b>?")
    expect(dialog).to_contain_text("Whose table it is.")
    expect(dialog.get_by_role("button", name="Allow once")).to_have_count(0)
    expect(dialog.get_by_label("guests")).to_have_value("2")
    page.keyboard.press("Enter")  # typed by somebody who did not see the dialog come
    expect(dialog).to_be_visible()
    dialog.get_by_label("guests").fill("9")
    dialog.get_by_label("name").fill("Ada")
    dialog.get_by_role("button", name="Send these").click()
    expect(dialog.get_by_role("alert")).to_contain_text("guests")
    dialog.get_by_label("guests").fill("3")
    dialog.get_by_role("button", name="Send these").click()
    answered(page, "Booked.")
    shown = card(page, "tables:book")
    shown.locator("summary").click()
    expect(shown.locator(".card-body")).to_contain_text('"action": "accept"')
    expect(shown.locator(".card-body")).to_contain_text('"guests": 3')
    say(page, "book another")
    form(page).get_by_role("button", name="Deny", exact=True).click()
    expect(card(page, "tables:book").last).to_contain_text('"action": "decline"')
