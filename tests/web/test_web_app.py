"""The application of docs/examples/web_app in a real browser, with a server that is killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.desk.page.conftest import SECONDS
from tests.docs.pages import ROOT
from tests.network import free_port
from tests.polling import blocking_until

EXAMPLE = ROOT / "docs" / "examples" / "web_app"
SERVE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import uvicorn
from app import create_app
from handrail.testing import ScriptFile
app = create_app(ScriptFile.read(Path("replies.toml")), "shop.db")
uvicorn.run(app, port=int(sys.argv[2]), log_level="warning", timeout_graceful_shutdown=1)
"""
REPLIES = """
[[reply]]
when = "What is order 17?"
text = "Let me look. "
calls = [{ name = "find_order", arguments = { id = "17" } }]

[[reply]]
when = "What is order 17?"
text = "It is <b>an umbrella</b>."

[[reply]]
when = "Refund it."
calls = [{ name = "refund", arguments = { order = "17", cents = 2450 } }]

[[reply]]
when = "Refund it."
text = "That is settled."
"""


class ShopServer:
    """The example as a process, which can be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def refunds(self) -> list[str]:
        file = self.folder / "refunds.txt"
        return file.read_text().splitlines() if file.exists() else []

    def start(self) -> None:
        command = [sys.executable, "-c", SERVE, str(EXAMPLE), str(self.port)]
        self._process = subprocess.Popen(command, cwd=self.folder, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        assert blocking_until(self._answers), "the server does not start"

    def end(self, by: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(by)
        return self._process.wait(30)

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, "the server ended"
        with suppress(OSError), urllib.request.urlopen(self.url, timeout=5) as response:
            return bool(response.status == 200)
        return False


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[ShopServer]:
    (tmp_path / "replies.toml").write_text(REPLIES)
    server = ShopServer(tmp_path)
    server.start()
    yield server
    server.end(signal.SIGKILL)


@pytest.fixture
def visitor(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    context.set_default_timeout(SECONDS * 1000)
    yield context
    context.close()


def opened(shop: ShopServer, visitor: BrowserContext) -> Page:
    page = visitor.new_page()
    page.goto(shop.url)
    return page


def say(page: Page, text: str) -> None:
    page.get_by_label("Your message").fill(text)
    page.get_by_role("button", name="Send").click()


def test_an_answer_is_shown_as_it_is_written_and_is_there_after_a_reload(
    shop: ShopServer, visitor: BrowserContext
) -> None:
    page = opened(shop, visitor)
    say(page, "What is order 17?")

    lines = ["What is order 17?", "Let me look. ", "find_order: an umbrella, 24.50 €", "It is <b>an umbrella</b>."]
    expect(page.locator("#log > *")).to_have_text(lines)
    page.reload()
    expect(page.locator("#log > *")).to_have_text(lines)


def test_a_refund_waits_for_a_click_and_survives_a_killed_server(shop: ShopServer, visitor: BrowserContext) -> None:
    page = opened(shop, visitor)
    say(page, "Refund it.")
    card = page.locator(".card")
    expect(card).to_contain_text('"cents": 2450')
    assert shop.refunds == []

    shop.end(signal.SIGKILL)
    shop.start()
    page.reload()
    expect(card).to_contain_text("May I use refund? Refund an order.")
    card.get_by_role("button", name="Allow").click()

    expect(page.locator(".assistant")).to_have_text("That is settled.")
    expect(page.locator(".call")).to_have_text("refund: refunded 2450 cents for order 17")
    expect(card).to_have_count(0)
    assert shop.refunds == ["17 2450"]


def test_a_page_that_stays_open_comes_back_by_itself_when_the_server_does(
    shop: ShopServer, visitor: BrowserContext
) -> None:
    page = opened(shop, visitor)
    say(page, "Refund it.")
    expect(page.locator(".card")).to_be_visible()

    assert shop.end(signal.SIGTERM) in (0, -signal.SIGTERM)
    shop.start()
    page.get_by_role("button", name="Allow").click()

    expect(page.locator(".assistant")).to_have_text("That is settled.")
    assert shop.refunds == ["17 2450"]


def test_nothing_happens_when_the_visitor_denies_it(shop: ShopServer, visitor: BrowserContext) -> None:
    page = opened(shop, visitor)
    say(page, "Refund it.")
    page.get_by_role("button", name="Deny").click()

    expect(page.locator(".call")).to_have_text("refund: This was denied.")
    expect(page.locator(".assistant")).to_have_text("That is settled.")
    assert shop.refunds == []


def test_another_visitor_sees_nothing_of_it(shop: ShopServer, visitor: BrowserContext, browser: Browser) -> None:
    page = opened(shop, visitor)
    say(page, "Refund it.")
    expect(page.locator(".card")).to_be_visible()

    other = browser.new_context()
    theirs = opened(shop, other)
    say(theirs, "What is order 17?")
    expect(theirs.locator(".assistant").last).to_have_text("It is <b>an umbrella</b>.")
    expect(theirs.locator(".card")).to_have_count(0)
    other.close()
