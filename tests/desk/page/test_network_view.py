"""The Network view: nodes and calls as they are now, where nothing moves under the pointer."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import PATIENCE, PageNode


def called(house: PageNode, capability: str, **given: Any) -> None:
    """Another program calls something of the house over its bus."""
    headers = {
        "Content-Type": "application/json",
        "X-HearthNet-Capability": capability,
        "Authorization": f"Bearer {house.token}",
    }
    body = json.dumps({"input": given}).encode()
    try:
        urlopen(Request(f"{house.url}/bus/v1/call", body, headers), timeout=PATIENCE).close()
    except HTTPError as error:
        error.close()


def calls(page: Page) -> Locator:
    return page.get_by_role("region", name="Latest calls").locator("tbody tr")


def tile(page: Page, name: str) -> Locator:
    return page.locator(".tiles div").filter(has_text=name).locator("dd")


@pytest.fixture
def lonely(house: PageNode) -> Iterator[PageNode]:
    """It knows of a node that is never there."""
    peer = '[node]\nname = "kitchen"\n[node.peers.attic]\nurl = "http://127.0.0.1:9"\n'
    house.config.write_text(f"{house.config.read_text()}\n{peer}")
    with house.serve():
        yield house


def test_this_node_what_it_offers_and_what_is_under_way_are_shown_as_they_change(lonely: PageNode, tab: Tab) -> None:
    served = lonely
    page = tab(served, "#/network")
    expect(page.locator(".node")).to_have_count(2)
    lost = page.locator(".node").filter(has_text="attic")
    expect(lost.locator(".chip")).to_have_text("lost")
    node = page.locator(".node").filter(has_text="kitchen")
    expect(node.locator(".chip").first).to_have_text("here")
    expect(page.get_by_text("No calls through the bus yet. Proof shows the calls of conversations.")).to_be_visible()
    node.locator("summary").click()
    job = node.get_by_role("row", name=re.compile("odd.long_job"))
    expect(job).to_contain_text("Work in steps")
    expect(job.get_by_role("cell")).to_have_text("–")

    caller = threading.Thread(target=called, args=(served, "odd.long_job"), kwargs={"steps": 1})
    caller.start()
    served.gate.wait()
    expect(job.get_by_role("cell")).to_have_text("1")
    expect(node).to_contain_text("1 call in progress")
    expect(tile(page, "In progress")).to_have_text("1")
    served.gate.step()
    caller.join(PATIENCE)
    expect(job.get_by_role("cell")).to_have_text("–")
    expect(tile(page, "Answered")).to_have_text("1")
    expect(calls(page)).to_have_count(1)
    expect(calls(page)).to_contain_text("odd.long_job@1.0")


def test_new_calls_do_not_move_what_is_pointed_at(served: PageNode, tab: Tab) -> None:
    page = tab(served, "#/network")
    called(served, "notes.read_note", path="shopping.txt")
    expect(calls(page).first).to_contain_text("notes.read_note@1.0")
    expect(calls(page).first).to_contain_text("ok")
    calls(page).first.hover()

    called(served, "odd.fail", why="no luck")
    expect(page.get_by_text("Paused while you look at it; 1 new call.")).to_be_visible()
    expect(calls(page)).to_have_count(1)
    expect(calls(page).first).to_contain_text("notes.read_note@1.0")

    page.get_by_role("heading", name="Network").hover()
    expect(calls(page)).to_have_count(2)
    expect(calls(page).first).to_contain_text("odd.fail@1.0")
    expect(tile(page, "Failed")).to_have_text("1")
