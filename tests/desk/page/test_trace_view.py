"""Where the time of a run went, on the page; and calls of the chat among those that Network counts."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.desk.page.chat_actions import answered, say
from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import PageNode


def test_a_run_is_shown_as_a_waterfall_its_tokens_by_day_and_its_call_is_counted_in_network(
    served: PageNode, tab: Tab
) -> None:
    page = tab(served)
    say(page, "read the note")
    answered(page, "You need bread, milk and tea.")
    page.locator("a.to-proof").click()
    page.get_by_text("Where the time went").click()
    rows = page.locator(".waterfall tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("notes:read_note")
    expect(page.get_by_text("2 turns · 1 call")).to_be_visible()
    page.get_by_role("link", name="All runs").click()
    page.get_by_text("Tokens and cost per day").click()
    expect(page.locator(".waterfall tbody tr")).to_contain_text("scripted")
    page.get_by_role("link", name="Network").click()
    expect(page.locator(".tiles div").filter(has_text="Answered").locator("dd")).to_have_text("1")
