"""What has to come over the wire before the page can be used: little, even for a browser that takes nothing packed."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.page.conftest import Tab
from tests.page.scene import House

MOST = 150 * 1024
CAME = """
() => ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))
  .map(({ name, transferSize, decodedBodySize, responseEnd }) => [name, transferSize, decodedBodySize, responseEnd])
"""
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def test_until_it_can_be_used_the_page_needs_less_than_150_kilobytes(served: House, tab: Tab) -> None:
    page = tab(served)
    expect(page.locator("main textarea")).to_be_focused()
    came = page.evaluate(CAME)
    assert len(came) > 20
    assert all(carried > 0 for _, carried, _, _ in came), "what is counted came over the wire, and not from a cache"
    assert sum(carried for _, carried, _, _ in came) < MOST
    # Unpacked, what came before something was seen.
    painted = page.evaluate(PAINTED)
    assert sum(whole for _, _, whole, end in came if end <= painted) < MOST
    assert not [name for name, *_ in came if "/views/" in name and "/chat/" not in name], (
        "a view that is not shown waits"
    )
