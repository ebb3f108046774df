"""Whole evenings at the page, with a node in a process of its own: what the parts are for, together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from handrail.models.local.weights import find_weights
from tests.desk.page.chat_actions import answered, banner, begin_anew, box, card, press, question, replies, said, say
from tests.desk.page.conftest import Tab
from tests.desk.page.node_process import NodeProcess
from tests.desk.page.page_node import PageNode

CONFIG = """\
default_model = "local"

[models.local]
provider = "local"

[services]
llm = false
blobs = false
rag = false
trans = false
market = false
chat = false
img = false
stt = false
"""
SHOP = '''\
"""A shop that writes down what is ordered."""

from pathlib import Path

from handrail import tool

ORDERS = Path(__file__).parent / "orders.txt"


@tool(side_effects=False)
def check_stock(item: str) -> dict:
    """Get how many pieces of an item are in stock.

    Args:
        item: The name of the item.
    """
    return {"item": item, "in_stock": 12}


@tool(side_effects=True)
def place_order(item: str, quantity: int) -> str:
    """Place an order for an item.

    Args:
        item: The name of the item.
        quantity: How many pieces.
    """
    with ORDERS.open("a", encoding="utf-8") as file:
        file.write(f"{quantity} {item}\\n")
    return f"order is placed: {quantity} x {item}"
'''
WATCH = """
() => {
  window.states = [];
  const before = [...document.querySelectorAll(".tool-card")].at(-1);
  const look = () => {
    const card = [...document.querySelectorAll(".tool-card")].at(-1);
    const state = card === before ? "" : card?.dataset.state;
    if (state && window.states.at(-1) !== state) window.states.push(state);
  };
  const all = { subtree: true, childList: true, attributes: true, attributeFilter: ["data-state"] };
  new MutationObserver(look).observe(document.querySelector("main"), all);
}
"""
"""From here on it is noted how the next card stands, one after the other."""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node with the embedded model."""
    assert find_weights() is not None, "the weights of the local model are missing; run scripts/setup_local.py"
    (tmp_path / "handrail.toml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    with NodeProcess(tmp_path, tmp_path / "state", "--tools", "shop.py") as node:
        yield node


@pytest.mark.requirement("hearthnet.confirmation")
def test_the_embedded_model_is_asked_calls_tools_and_does_only_what_the_person_allows(
    shop: NodeProcess, tab: Tab, tmp_path: Path
) -> None:
    orders = tmp_path / "orders.txt"
    page = tab(shop)
    say(page, "How many umbrellas are in stock?")
    expect(card(page, "check_stock")).to_have_attribute("data-state", "ok")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    expect(replies(page).last).not_to_be_empty()
    expect(card(page, "check_stock")).to_contain_text("item: umbrella")

    page.evaluate(WATCH)
    say(page, "Order 2 umbrellas.")
    expect(question(page)).to_contain_text('"quantity": 2')
    assert not orders.exists()
    press(page, "a")
    expect(card(page, "place_order")).to_have_attribute("data-state", "ok")
    assert [line.split()[0] for line in orders.read_text().splitlines()] == ["2"]
    assert page.evaluate("window.states")[:2] == ["writing", "asked"]
    _stop(page)

    begin_anew(page)
    say(page, "Order 500 umbrellas.")
    expect(question(page)).to_contain_text('"quantity": 500')
    press(page, "d")
    page.keyboard.press("Enter")
    expect(card(page, "place_order").first).to_have_attribute("data-state", "denied")
    _stop(page)

    begin_anew(page)
    say(page, "Order 3 umbrellas.")
    question(page).get_by_role("button", name="Edit").click()
    question(page).get_by_role("textbox").fill('{"item": "raincoats", "quantity": 1}')
    question(page).get_by_role("button", name="Run with these").click()
    expect(card(page, "place_order")).to_have_attribute("data-state", "ok")
    assert orders.read_text().splitlines()[1:] == ["1 raincoats"]
    _stop(page)


@pytest.fixture
def process(house: PageNode) -> Iterator[NodeProcess]:
    """The house with a node of its own, in a process."""
    with NodeProcess(house.folder, house.folder / "state") as node:
        yield node


def test_a_node_that_is_killed_while_it_asks_has_done_nothing_and_says_so(
    house: PageNode, process: NodeProcess, tab: Tab
) -> None:
    page = tab(process, allow=("WebSocket",))
    say(page, "hello")
    answered(page, "Hello!")
    other = tab(process, page.url.removeprefix(process.url + "/"), beside=page, allow=("WebSocket",))
    say(page, "write the note")
    for each in (page, other):
        expect(question(each)).to_be_visible()
    process.kill()
    expect(page.get_by_text("Connection lost. Trying again")).to_be_visible()
    process.start()
    for each in (page, other):
        expect(each.get_by_text("Connection lost. Trying again")).to_be_hidden(timeout=20_000)
        expect(question(each)).to_be_hidden()
        expect(card(each, "notes:write_note")).to_have_attribute("data-state", "left")
    assert not (house.kept / "plan.txt").exists()
    banner(page).get_by_role("button", name="Undo").click()
    expect(said(other)).to_have_count(1)
    say(page, "write the note")
    question(other).get_by_role("button", name="Allow once").click()
    for each in (page, other):
        answered(each, "It is written.")
    assert (house.kept / "plan.txt").read_text() == "rest"


def test_a_whole_conversation_needs_no_mouse(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    expect(box(page)).to_be_focused()
    page.keyboard.type("write the note")
    page.keyboard.press("Enter")
    expect(question(page)).to_be_visible()
    _tab_to(page, "Edit …")
    page.keyboard.press("Enter")
    page.keyboard.press("Control+A")
    page.keyboard.type('{"path": "keys.txt", "text": "by hand"}')
    _tab_to(page, "Run with these")
    page.keyboard.press("Enter")
    answered(page, "It is written.")
    assert (served.kept / "keys.txt").read_text() == "by hand"
    expect(box(page)).to_be_focused()
    page.keyboard.type("please fail")
    page.keyboard.press("Enter")
    answered(page, "It did not work.")
    expect(banner(page)).to_be_visible()
    expect(box(page)).to_be_focused()
    _tab_to(page, "Undo", back=True)
    page.keyboard.press("Enter")
    expect(said(page)).to_have_count(1)
    expect(box(page)).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("read the note")
    page.keyboard.press("Enter")
    answered(page, "You need bread")
    _tab_to(page, "summary.card-head", back=True)
    page.keyboard.press("Enter")
    expect(card(page, "notes:read_note").locator(".card-body")).to_contain_text("bread, milk and tea")


def _tab_to(page: Page, what: str, *, back: bool = False) -> None:
    """Press Tab until the focus is there: on a button by its words, or on what a selector names."""
    here = """
    (what) => {
      const at = document.activeElement;
      return what.includes(".") ? at.matches(what) : (at.querySelector("span") ?? at).textContent.trim() === what;
    }
    """
    for _ in range(40):
        page.keyboard.press("Shift+Tab" if back else "Tab")
        if page.evaluate(here, what):
            return
    raise AssertionError(f"{what!r} cannot be reached with Tab")


def _stop(page: Page) -> None:
    """What the model would still say is not waited for."""
    box(page).press("Escape")
    box(page).press("Escape")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
