"""What has to come over the wire before the page can be used: little, even for a browser that takes nothing packed."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import expect

from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import PageNode
from tests.desk.page.page_sources import WEB

MOST = 150 * 1024
CAME = """
() => ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))
  .map(({ name, transferSize, decodedBodySize }) => [name, transferSize, decodedBodySize])
"""
IMPORTED = re.compile(r'^import\b[^;]*?"(\.[^"]+)";', re.MULTILINE)


def test_until_it_can_be_used_the_page_needs_less_than_150_kilobytes(served: PageNode, tab: Tab) -> None:
    page = tab(served)
    expect(page.locator("main textarea")).to_be_focused()
    came = page.evaluate(CAME)
    assert len(came) > 20
    assert all(carried > 0 for _, carried, _ in came), "what is counted came over the wire, and not from a cache"
    assert sum(carried for _, carried, _ in came) < MOST
    # Unpacked, what has to come before something is seen.
    web = WEB.resolve()
    modules = {each.relative_to(web).as_posix() for each in needed(web / "main.js", set())}
    first = [whole for name, _, whole in came if not name.endswith(".js") or name.partition("/page/")[2] in modules]
    assert len(first) > len(modules)
    assert sum(first) < MOST
    assert not [name for name, *_ in came if "/views/" in name and "/chat/" not in name], (
        "a view that is not shown waits"
    )


def needed(module: Path, found: set[Path]) -> set[Path]:
    """The module, and what it cannot begin without."""
    if module not in found:
        found.add(module)
        for name in IMPORTED.findall(module.read_text(encoding="utf-8")):
            needed((module.parent / name).resolve(), found)
    return found
