"""Takes the pictures of the page and of the terminal program, with the shop in docs/examples/house/ as their subject.

A real node in a folder of its own, a real Chromium, a model that reads its lines: the pictures change only where
the page does. `make pictures` puts them into docs/pictures/.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
HOUSE = ROOT / "docs" / "examples" / "house"
PICTURES = ROOT / "docs" / "pictures"
DESK, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 780}
ELSEWHERE: dict[str, dict[str, Any]] = {
    "chat-dark": {"color_scheme": "dark"},
    "chat-phone": {"viewport": PHONE},
    "chat-german": {"locale": "de-DE"},
}
"""How else the same conversation is shown: the name of the picture, and what the browser is told."""


Said = dict[str, str]
"""What a node says of itself when it begins: url, page, token."""
PEER = """
[node.peers.warehouse]
url = "{url}"
token = "env:WAREHOUSE_TOKEN"
"""


def main() -> int:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="shop-") as folder, ExitStack() as stack:
        warehouse = stack.enter_context(served(house(Path(folder), "warehouse")))
        shop = house(Path(folder), "shop", PEER.format(url=warehouse["url"]))
        node = stack.enter_context(served(shop, WAREHOUSE_TOKEN=warehouse["token"]))
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("chromium-headless-shell"), args=["--no-sandbox"]
        )
        where = talk(browser, node["page"])
        for name, told in ELSEWHERE.items():
            again(browser, node["page"], where, name, told)
        trade(node)
        for view in (tools, proof, network, settings):
            with tab(browser, node["page"]) as page:
                views = page.get_by_role("navigation", name="Views")
                views.get_by_role("link", name=view.__name__.capitalize()).click()
                view(page)
        browser.close()
    return subprocess.call([sys.executable, str(ROOT / "scripts" / "pictures_tui.py")])


def house(folder: Path, name: str, more: str = "") -> Path:
    """A copy of the shop by this name."""
    copied = folder / name
    shutil.copytree(HOUSE, copied)
    config = copied / "handrail.toml"
    config.write_text(config.read_text().replace('name = "shop"', f'name = "{name}"') + more)
    return copied


@contextmanager
def served(house: Path, **environment: str) -> Iterator[Said]:
    command = [sys.executable, "-m", "handrail", "serve", "--json", "--listen", "127.0.0.1:0"]
    environment = {**os.environ, "XDG_STATE_HOME": str(house.parent / "state"), **environment}
    approve = [sys.executable, "-m", "handrail", "approve", "--yes"]
    subprocess.run(approve, cwd=house, env=environment, capture_output=True, check=True)
    with subprocess.Popen(command, cwd=house, stdout=subprocess.PIPE, text=True, env=environment) as node:
        try:
            assert node.stdout is not None
            yield json.loads(node.stdout.readline())
        finally:
            node.terminate()


def trade(node: Said) -> None:
    """Some calls between nodes, so that there is something to see."""
    ask = [sys.executable, "-m", "handrail", "bus", "call", "--at", node["url"], "--json"]
    for called in ("peers.list", "market.list", "rag.query", "market.list"):
        subprocess.run([*ask, called], env={**os.environ, "HANDRAIL_TOKEN": node["token"]}, capture_output=True)


@contextmanager
def tab(browser: Browser, address: str, **told: Any) -> Iterator[Page]:
    context = browser.new_context(**{"viewport": DESK, "locale": "en-GB", "reduced_motion": "reduce", **told})
    page = context.new_page()
    page.goto(address)
    yield page
    context.close()


def keep(page: Page, name: str) -> None:
    page.screenshot(path=PICTURES / f"page-{name}.png", animations="disabled", caret="hide")
    print(f"docs/pictures/page-{name}.png")


def talk(browser: Browser, address: str) -> str:
    """A question, a dialog, an answer, and a failure: where the conversation is."""
    with tab(browser, address) as page:
        say(page, "We need 20 umbrellas for Saturday. Are there enough?")
        question = page.get_by_role("dialog")
        expect(question).to_be_visible()
        expect(page.locator(".question")).not_to_have_attribute("data-keys", "wait")
        keep(page, "question")
        question.get_by_role("button", name="Allow once").click()
        expect(answer(page, "Together with the 12 in stock")).to_be_visible()
        keep(page, "chat")
        say(page, "Which customer ordered them?")
        expect(answer(page, "Do you mean Ada Lovelace")).to_be_visible()
        expect(page.get_by_role("region", name="Something failed")).to_be_visible()
        keep(page, "alert")
        return page.url


def again(browser: Browser, address: str, where: str, name: str, told: dict[str, Any]) -> None:
    with tab(browser, address, **told) as page:
        page.goto(where)
        expect(answer(page, "Do you mean Ada Lovelace")).to_be_visible()
        keep(page, name)


def say(page: Page, words: str) -> None:
    page.get_by_role("textbox", name="Say something").fill(words)
    page.keyboard.press("Enter")


def answer(page: Page, words: str) -> Locator:
    return page.locator("article.said-by-model").get_by_text(words)


def tools(page: Page) -> None:
    page.get_by_role("searchbox").fill("stock")
    expect(page.get_by_text("shop:count_stock")).to_be_visible()
    page.get_by_role("searchbox").fill("shop:")
    expect(page.get_by_text("shop:place_order")).to_be_visible()
    keep(page, "tools")
    page.get_by_role("link", name="shop:place_order").click()
    expect(page.get_by_role("heading", name="shop:place_order")).to_be_visible()
    keep(page, "tool")


def proof(page: Page) -> None:
    page.get_by_text("We need 20 umbrellas").click()
    expect(page.get_by_text("Verified in this browser: all")).to_be_visible()
    keep(page, "proof")


def network(page: Page) -> None:
    expect(page.get_by_role("heading", name="warehouse")).to_be_visible()
    keep(page, "network")


def settings(page: Page) -> None:
    expect(page.get_by_role("textbox", name="default_model")).to_be_visible()
    page.locator("summary", has_text="[limits]").click()
    page.get_by_role("heading", name="The file").evaluate("head => head.scrollIntoView()")
    keep(page, "settings")


if __name__ == "__main__":
    sys.exit(main())
