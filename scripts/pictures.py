"""Takes the pictures of the page and of the terminal program, with the shop in docs/examples/house/ as their subject.

A real node in a folder of its own, a real Chromium, a model that reads its lines: the pictures change only where
the page does. `make pictures` puts them into docs/pictures/.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
HOUSE = ROOT / "docs" / "examples" / "house"
PICTURES = ROOT / "docs" / "pictures"
DESK, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 780}
VIEWS = ("tools", "proof", "network", "settings")


def main() -> int:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        house = Path(folder) / "shop"
        shutil.copytree(HOUSE, house)
        with served(house) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            talk(browser, address)
            for view in VIEWS:
                look(browser, address, view)
            browser.close()
    return subprocess.call([sys.executable, str(ROOT / "scripts" / "pictures_tui.py")])


@contextmanager
def served(house: Path) -> Iterator[str]:
    """The address of the page, with its token."""
    command = [sys.executable, "-m", "handrail", "serve", "--json", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=house, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None
            yield str(json.loads(node.stdout.readline())["page"])
        finally:
            node.terminate()


@contextmanager
def tab(
    browser: Browser, address: str, *, viewport: dict[str, int] = DESK, scheme: str = "light", language: str = "en"
) -> Iterator[Page]:
    context = browser.new_context(
        viewport=viewport,  # type: ignore[arg-type]
        color_scheme=scheme,  # type: ignore[arg-type]
        locale=language,
        device_scale_factor=1,
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(address)
    yield page
    context.close()


def keep(page: Page, name: str) -> None:
    page.screenshot(path=PICTURES / f"page-{name}.png", animations="disabled", caret="hide")
    print(f"docs/pictures/page-{name}.png")


def talk(browser: Browser, address: str) -> None:
    """A question, a dialog, an answer, and a failure; then the same in the dark and on a phone."""
    with tab(browser, address) as page:
        say(page, "We need 20 umbrellas for Saturday. Are there enough?")
        question = page.get_by_role("dialog")
        expect(question).to_be_visible()
        keep(page, "question")
        question.get_by_role("button", name="Allow once").click()
        expect(page.locator("article.said-by-model").get_by_text("Together with the 12 in stock")).to_be_visible()
        keep(page, "chat")
        say(page, "Which customer ordered them?")
        expect(page.locator("article.said-by-model").get_by_text("Do you mean Ada Lovelace")).to_be_visible()
        keep(page, "alert")
        where = page.url
    token = address.partition("#")[2]
    for name, how in {
        "chat-dark": {"scheme": "dark"},
        "chat-phone": {"viewport": PHONE},
        "chat-german": {"language": "de"},
    }.items():
        with tab(browser, address, **how) as page:  # type: ignore[arg-type]
            page.goto(f"{where}")
            expect(page.locator("article.said-by-model").get_by_text("Do you mean Ada Lovelace")).to_be_visible()
            keep(page, name)
    assert token


def say(page: Page, words: str) -> None:
    page.get_by_role("textbox", name="Say something").fill(words)
    page.keyboard.press("Enter")


def look(browser: Browser, address: str, view: str) -> None:
    with tab(browser, address) as page:
        page.get_by_role("navigation").get_by_role("link", name=view.capitalize()).click()
        page.wait_for_load_state("networkidle")
        keep(page, view)


if __name__ == "__main__":
    sys.exit(main())
