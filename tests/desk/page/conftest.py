"""A house to visit, and a browser to visit it with. A page that complains on its console fails its test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.chromium import CHROMIUM, WITHOUT_SANDBOX
from tests.desk.page.chat_actions import box
from tests.desk.page.page_node import PageNode
from tests.network import left_alone

SECONDS = 60.0
"""For something to be seen, on a machine that is busy."""
expect.set_options(timeout=SECONDS * 1000)


class Engine:
    """One Chromium for all tests of a process.

    Playwright keeps an event loop running in this thread, in a greenlet of its own. Between two tests that use it
    the thread has no running loop, so that tests which start one find it free.
    """

    def __init__(self) -> None:
        self._playwright = sync_playwright().start()
        self._loop = asyncio.get_running_loop()
        self.browser = self._playwright.chromium.launch(executable_path=CHROMIUM, args=WITHOUT_SANDBOX)
        asyncio._set_running_loop(None)

    @contextmanager
    def awake(self) -> Iterator[Browser]:
        asyncio._set_running_loop(self._loop)
        try:
            yield self.browser
        finally:
            asyncio._set_running_loop(None)

    def close(self) -> None:
        with self.awake():
            self.browser.close()
            self._playwright.stop()


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here")
    engine = Engine()
    yield engine
    engine.close()


@pytest.fixture
def browser(engine: Engine) -> Iterator[Browser]:
    with left_alone(), engine.awake() as browser:
        yield browser


@pytest.fixture
def house(tmp_path: Path) -> Iterator[PageNode]:
    """Not served yet."""
    folder = tmp_path / "house"
    folder.mkdir()
    house = PageNode(folder)
    yield house
    house.close()


@pytest.fixture
def served(house: PageNode) -> Iterator[PageNode]:
    with house.serve():
        yield house


class Address(Protocol):
    """Where a page is, and what opens it."""

    @property
    def url(self) -> str: ...
    @property
    def token(self) -> str: ...


class Tab(Protocol):
    def __call__(
        self,
        house: Address,
        route: str = "",
        *,
        token: str | None = None,
        beside: Page | None = None,
        allow: tuple[str, ...] = (),
        **context: Any,
    ) -> Page:
        """Open the page of a house that is served, at a route as `#/tools`.

        `token=""` brings none; `beside` opens it in the same browser window as another tab; what the console says, or
        another address that is asked for, is an error unless it holds one of the words in `allow`; the rest is for the
        browser's context (viewport, locale, color_scheme, reduced_motion …).
        """
        ...


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    contexts: list[BrowserContext] = []
    said: list[str] = []

    def opened(
        house: Address,
        route: str = "",
        *,
        token: str | None = None,
        beside: Page | None = None,
        allow: tuple[str, ...] = (),
        **options: Any,
    ) -> Page:
        if beside is None:
            context = browser.new_context(**{"locale": "en-GB", "reduced_motion": "reduce", **options})
            context.set_default_timeout(SECONDS * 1000)
            contexts.append(context)
        else:
            context = beside.context
        page = context.new_page()
        page.on("console", lambda message: _heard(message, allow, said))
        page.on("request", lambda request: _asked(request, house.url, allow, said))
        page.on("pageerror", lambda error: said.append(f"{error.name}: {error.message}"))
        found = house.token if token is None else token
        if found:
            page.goto(f"{house.url}/#token={found}")
        if route or not found:
            page.goto(f"{house.url}/{route}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not said, f"the page complained: {said}"


@pytest.fixture
def blank(served: PageNode, tab: Tab) -> Page:
    """A page on which modules can be tried."""
    page = tab(served)
    expect(box(page)).to_be_visible()
    return page


def _asked(request: Request, home: str, allow: tuple[str, ...], said: list[str]) -> None:
    """The page loads its own files, and speaks with its node by WebSocket alone."""
    ours = (f"{home}/page/", f"{home}/#", "blob:", "data:")
    allowed = request.url == f"{home}/" or any(each in request.url for each in allow)
    if not allowed and not request.url.startswith(ours):
        said.append(f"it asked for {request.url}")


def _heard(message: ConsoleMessage, allow: tuple[str, ...], said: list[str]) -> None:
    if message.type in ("error", "warning") and not any(each in message.text for each in allow):
        said.append(message.text)
