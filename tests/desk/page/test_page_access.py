"""Who gets in: the page with its token, and nobody from another origin, by whatever way a browser has."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, Page, expect

from handrail.node.tokens.scope import Scope
from handrail.node.tokens.token import issue
from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import PageNode

BLOCKED = ("415 (Unsupported Media Type)", "TrustedScript", "Framing", "form-action", "405 (Method")
"""What even the page itself may not do, as Chromium says it."""
ASKED = ("/bus/v1/call", "/manifest")
"""What it does not ask for by itself."""
TRIES = """
async ([url, token]) => {
  const tries = {
    read: () => fetch(url + "/").then((r) => r.text()),
    module: () => fetch(url + "/page/main.js", { credentials: "include" }).then((r) => r.text()),
    call: () => fetch(url + "/bus/v1/call", {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer " + token },
      body: JSON.stringify({ capability: "desk.about" }),
    }).then((r) => r.text()),
    simple: () => fetch(url + "/bus/v1/call", {
      method: "POST",
      headers: { "content-type": "text/plain", accept: "text/event-stream" },
      body: JSON.stringify({ capability: "desk.begin", version: "1.0", body: { input: {} }, token }),
    }).then((r) => r.ok ? r.text() : Promise.reject(new Error(r.status))),
    form: () => new Promise((done, failed) => {
      const frame = document.createElement("iframe");
      frame.name = "posted";
      document.body.append(frame);
      const form = document.createElement("form");
      Object.assign(form, { method: "post", enctype: "text/plain", target: "posted", action: url + "/bus/v1/call" });
      const field = document.createElement("input");
      field.name = JSON.stringify({ capability: "desk.begin", version: "1.0", body: { input: {} }, token, x: "" });
      form.append(field);
      document.body.append(form);
      frame.onload = () => {
        try {
          done(frame.contentWindow.document.body.textContent);
        } catch (error) {
          failed(error);
        }
      };
      form.submit();
    }),
    events: () => new Promise((done, failed) => {
      const source = new EventSource(url + "/bus/v1/call");
      source.onopen = () => done("open");
      source.onerror = () => (source.close(), failed(new Error("no")));
    }),
    worker: async () => String(new Worker(url + "/page/words.js", { type: "module" })),
    manifest: () => fetch(url + "/manifest").then((r) => r.text()),
    script: () => new Promise((done, failed) => {
      const script = document.createElement("script");
      script.src = url + "/page/theme.js";
      script.onload = () => done("loaded");
      script.onerror = () => failed(new Error("no"));
      document.head.append(script);
    }),
    imported: () => import(url + "/page/words.js").then((module) => Object.keys(module).join()),
    image: () => new Promise((done, failed) => {
      const image = new Image();
      image.onload = () => done("loaded");
      image.onerror = () => failed(new Error("no"));
      image.src = url + "/page/mark.svg";
    }),
    socket: () => new Promise((done, failed) => {
      const socket = new WebSocket(url.replace("http", "ws") + "/bus/v1/call", ["hearthnet-bus.v2"]);
      socket.onopen = () => done("open");
      socket.onerror = () => failed(new Error("no"));
    }),
    frame: () => new Promise((done, failed) => {
      const frame = document.createElement("iframe");
      frame.onload = () => {
        try {
          done("read " + frame.contentWindow.document.title);
        } catch (error) {
          failed(error);
        }
      };
      frame.src = url + "/";
      document.body.append(frame);
    }),
  };
  const found = {};
  for (const [name, attempt] of Object.entries(tries)) {
    found[name] = await attempt().then((text) => "got " + text, () => "nothing");
  }
  return found;
}
"""


class _Stranger(BaseHTTPRequestHandler):
    """A page of somebody else."""

    def do_GET(self) -> None:
        body = b"<!doctype html><title>elsewhere</title><link rel=icon href=data:,><body>"
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Not on the screen of whoever runs the tests."""


@pytest.fixture
def stranger() -> Iterator[int]:
    """The port of another site on this machine, which browsers take for another origin."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Stranger) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture
def elsewhere(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    context.set_default_timeout(15_000)
    yield context.new_page()
    context.close()


def test_the_address_that_is_printed_opens_the_page_and_the_token_is_in_it_no_longer(
    served: PageNode, tab: Tab
) -> None:
    page = tab(served)

    expect(page.get_by_role("navigation").first).to_be_visible()
    assert served.token not in page.url and "token" not in page.url
    assert served.token not in page.content()


def test_a_page_without_a_token_asks_for_one_and_takes_it(served: PageNode, tab: Tab) -> None:
    page = tab(served, token="")
    field = page.locator("#token")

    expect(field).to_be_focused()
    field.fill(served.token)
    field.press("Enter")

    expect(page.get_by_role("navigation").first).to_be_visible()
    expect(field).to_have_count(0)


@pytest.mark.parametrize("wrong", ["nonsense", "hntoken://v1/nonsense"])
def test_a_wrong_token_is_said_to_be_wrong_and_a_good_one_helps(served: PageNode, tab: Tab, wrong: str) -> None:
    page = tab(served, token=wrong)

    expect(page.locator("dialog")).to_contain_text("token")
    page.locator("#token").fill(f"{served.url}/#token={served.token}")
    page.locator("#token").press("Enter")

    expect(page.get_by_role("navigation").first).to_be_visible()


def test_a_token_is_still_valid_after_a_restart_of_the_node(served: PageNode, tab: Tab) -> None:
    page = tab(served, allow=("WebSocket connection",))
    expect(page.locator("main textarea")).to_be_visible()  # everything that it needs is loaded
    before = served.url

    served.restart()
    page.reload()

    assert served.url == before
    expect(page.get_by_role("navigation").first).to_be_visible()
    expect(page.locator("#token")).to_have_count(0)


def test_a_token_that_is_not_for_the_desk_is_told_so(served: PageNode, tab: Tab) -> None:
    assert served.node is not None
    page = tab(served, token=served.node.token_for("tool.*"))

    expect(page.locator("dialog")).to_contain_text("desk.about")


def test_a_member_is_told_that_the_desk_is_not_for_members(served: PageNode, tab: Tab) -> None:
    assert served.node is not None
    member = served.node.ask(
        lambda opened: str(issue(opened.identity, opened.tokens, Scope.of(("*",)), audience="home", ttl=600)[1])
    )
    page = tab(served, token=member)

    expect(page.locator("dialog")).to_contain_text("trusted")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_of_another_origin_can_read_nothing_and_open_no_socket(
    served: PageNode, elsewhere: Page, stranger: int, name: str
) -> None:
    elsewhere.goto(f"http://{name}:{stranger}/")

    found = elsewhere.evaluate(TRIES, [served.url, served.token])

    assert set(found.values()) == {"nothing"}, found
    assert not [*(served.folder / ".handrail" / "conversations").glob("run_*")], "it could begin something unseen"


def test_a_name_that_somebody_points_at_this_machine_reaches_nothing(served: PageNode, elsewhere: Page) -> None:
    url = served.url.replace("127.0.0.1", "evil.localhost")  # browsers take every such name for this machine
    came = elsewhere.goto(f"{url}/")

    assert came is not None and came.status == 421
    statuses = "paths => Promise.all(paths.map((path) => fetch(path).then((found) => found.status)))"
    assert elsewhere.evaluate(statuses, ["/page/main.js", "/manifest", "/health", "/capabilities"]) == [421] * 4
    found = elsewhere.evaluate(TRIES, [url, served.token])
    nothing = ("socket", "events", "script", "imported", "image", "simple")
    assert [found[name] for name in nothing] == ["nothing"] * len(nothing), found


def test_the_same_tries_succeed_from_the_page_itself_so_that_they_prove_something(served: PageNode, tab: Tab) -> None:
    page = tab(served, allow=(*BLOCKED, *ASKED))

    found = page.evaluate(TRIES, [served.url, served.token])

    got = {name for name, text in found.items() if text.startswith("got")}
    assert got >= {"read", "module", "call", "manifest", "imported", "image", "socket"}, found


def test_a_page_that_opens_ours_in_a_window_has_no_hold_on_it(served: PageNode, elsewhere: Page, stranger: int) -> None:
    elsewhere.goto(f"http://localhost:{stranger}/")
    with elsewhere.expect_popup() as opened:
        elsewhere.evaluate("url => { window.theirs = window.open(url); }", f"{served.url}/#token={served.token}")
    expect(opened.value.get_by_role("navigation").first).to_be_visible()

    assert elsewhere.evaluate("() => window.theirs.closed") is True
    assert opened.value.evaluate("() => window.opener") is None
