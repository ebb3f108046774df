"""Whatever a tool, a model, a server or a file says is shown harmlessly, in every view; and what a dialog shows is
exactly what runs."""

from __future__ import annotations

import json
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Locator, Page, expect

from handrail.core.calls import Problem, ToolCall, ToolResult
from handrail.core.display import printable
from handrail.core.messages import (
    AssistantMessage,
    DocumentMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.desk.conversation_file import SharedConversation
from tests.desk.page.chat_actions import answered, banner, card, question, say
from tests.desk.page.conftest import Tab
from tests.desk.page.page_node import PageNode

SCRIPT = (
    "<script>window.stolen = 1</script><img src=x onerror='window.stolen = 2'><svg onload='window.stolen = 3'>"
    "<iframe srcdoc='<script>parent.stolen = 4</script>'></iframe><a href='javascript:window.stolen = 5'>x</a>"
)
LINKS = (
    "[a](javascript:window.stolen=6) [b](data:text/html,<script>window.stolen=7</script>) [c](JaVaScRiPt:stolen=8)"
    " ![d](http://127.0.0.1:1/pixel.png) <javascript:stolen=9> [https://bank.example](https://evil.example/)"
)
UNSEEN = "\x1b[2J\x1b]8;;http://evil.example\x07 \u202egpj.exe\u2066 zero\u200bwidth\ufeff \x00\x9b31m \u3164 \u2028"
HOSTILE = f"{SCRIPT} {LINKS} {UNSEEN} __proto__ constructor"
NUMBER = 2**53 + 1
"""A browser takes it for the one before."""
GIVEN: dict[str, Any] = {
    "account": NUMBER,
    "rate": -0.0,
    "path": "plan.txt \u202efdp.exe\u200b\xa0 ",
    "extra": {"__proto__": {"polluted": True}, "constructor": "c", "а": "Cyrillic", "a": "Latin", "n": 10**30},
    "text": "harmless " * 3_000 + "rm -rf /",
}
EVIL = '''\
"""Tools that mean no good."""

from pathlib import Path
from typing import Any

from handrail import ToolError, tool

HOSTILE = {hostile!r}


@tool(side_effects=True, description=HOSTILE)
async def spend(account: int, rate: float, path: str, extra: dict[str, Any], text: str) -> str:
    with (Path(__file__).parent / "spent.txt").open("a", encoding="utf-8") as file:
        file.write(repr(dict(account=account, rate=rate, path=path, extra=extra, text=text)) + "\\n")
    return "spent"


@tool(side_effects=False, description=HOSTILE, tags=("<b>tag</b>",))
async def mirror(text: str) -> Any:
    return {{"__proto__": {{"polluted": text}}, "constructor": {number}, text: [text, {{"toString": text}}]}}


@tool(side_effects=False, description=HOSTILE)
async def boom(text: str) -> str:
    raise ToolError("<b>CODE</b>", text)


@tool(name="__proto__", side_effects=False)
async def __proto__(constructor: int, toString: int) -> int:
    """A name that every object has."""
    return constructor


@tool(side_effects=False, max_output=2_000_000)
async def one_line() -> str:
    """A megabyte in one line."""
    return "x" * 500_000 + "\\u202e" + "y" * 500_000


@tool(side_effects=False, max_output=2_000_000)
async def no_words() -> str:
    """A megabyte of lines."""
    return "\\n" * 1_000_000


@tool(side_effects=False)
async def deep() -> Any:
    """A value without a bottom."""
    value: Any = []
    for _ in range(90):
        value = [value]
    return value
'''
TOOLS = ("spend", "mirror", "boom", "one_line", "no_words", "deep", "__proto__")
WALK = r"""
() => {
  const unseen = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\u3164\ufeff]/;
  const allowed = new Set(["http:", "https:", "mailto:", "blob:"]);
  const found = [];
  const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node instanceof Text) {
      if (unseen.test(node.data)) found.push(`unseen in ${node.parentElement.className}: ${JSON.stringify(node.data)}`);
      continue;
    }
    const name = node.localName;
    if (["iframe", "object", "embed", "base", "form[action]"].includes(name)) found.push(name);
    if (name === "script" && !node.src.startsWith(location.origin + "/page/")) found.push("a script");
    for (const { name: key, value } of node.attributes) {
      if (key.startsWith("on") || key === "srcdoc") found.push(`${name} ${key}`);
      if (unseen.test(value)) found.push(`unseen in ${name} ${key}: ${JSON.stringify(value)}`);
      const goes = ["href", "src", "action"].includes(key);
      if (goes && !allowed.has(new URL(value, location.href).protocol)) found.push(value);
    }
  }
  if (unseen.test(document.title)) found.push("the title");
  if (window.stolen !== undefined) found.push(`stolen ${window.stolen}`);
  if ({}.polluted !== undefined) found.push("polluted");
  return found.slice(0, 10);
}
"""
"""Everything on the page that could run, deceive or lead astray."""


@pytest.fixture
def evil(house: PageNode) -> Iterator[PageNode]:
    """Served, with tools, a model and replies that mean no good."""
    name = f"evil_{house.folder.parent.name.replace('-', '_')}"
    (house.folder / f"{name}.py").write_text(EVIL.format(hostile=HOSTILE, number=NUMBER), encoding="utf-8")
    invokers = "".join(f'\n[[invokers]]\nname = "{tool}"\npython = "{name}:{tool}"\n' for tool in TOOLS)
    (house.folder / "evil.toml").write_text(f'[ensemble]\nname = "evil"\n{invokers}', encoding="utf-8")
    text = house.config.read_text(encoding="utf-8").replace('"odd.toml"]', '"odd.toml", "evil.toml"]')
    models = f'\n[models.{json.dumps(SCRIPT)}]\nprovider = "scripted"\nmodel = "other.json"\n'
    house.config.write_text(text + models, encoding="utf-8")
    house.reply("attack", calls("mirror", text=HOSTILE), calls("boom", text=HOSTILE), HOSTILE)
    house.reply("spend", calls("spend", **GIVEN), "It is spent.")
    for tool in ("one_line", "no_words", "deep"):
        house.reply(tool, calls(tool), "That was it.")
    with house.serve():
        yield house


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"text": f"{HOSTILE}\n\n", "calls": [{"name": name, "arguments": arguments}]}


def harmless(page: Page, seen: Locator) -> None:
    expect(seen.first).to_be_visible()
    assert page.evaluate(WALK) == []


def test_a_hostile_world_is_shown_harmlessly_in_every_view(evil: PageNode, tab: Tab) -> None:
    page = tab(evil)
    say(page, f"attack {HOSTILE}")
    answered(page, "window.stolen = 1")
    for each in card(page, "evil:").all():
        each.locator("summary").click()
    harmless(page, banner(page))
    expect(banner(page)).to_contain_text("<b>CODE</b>")
    expect(card(page, "evil:mirror")).to_contain_text(f'"constructor": {NUMBER}')
    expect(page.get_by_role("link", name="https://bank.example").first).to_have_attribute(
        "href", "https://evil.example/"
    )
    expect(page.locator(".said-by-model").first).to_contain_text("https://bank.example (evil.example)")

    page.goto(f"{evil.url}/#/tools")
    harmless(page, page.get_by_text("evil:mirror"))
    page.goto(f"{evil.url}/#/tools/evil:mirror")
    harmless(page, page.get_by_role("heading", name="evil:mirror"))
    page.get_by_label("text").fill(HOSTILE)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".trial-answer article")).to_have_attribute("data-state", "ok")
    page.locator(".trial-answer summary").click()
    harmless(page, page.locator(".trial-answer .long"))

    page.goto(f"{evil.url}/#/tools/evil:__proto__")
    page.get_by_role("button", name="Write JSON instead").click()
    page.get_by_label("Arguments as JSON").fill("{}")
    page.get_by_role("button", name="Back to the form").click()
    expect(page.get_by_label("constructor")).to_have_value("")
    harmless(page, page.get_by_role("heading", name="evil:__proto__"))

    page.goto(f"{evil.url}/#/proof")
    page.get_by_role("link").filter(has_text="attack").first.click()
    expect(page.get_by_role("region", name="Timeline").get_by_text("The run ended: done")).to_be_visible()
    page.evaluate("document.querySelectorAll('main details').forEach((each) => (each.open = true))")
    harmless(page, page.get_by_text("evil:boom"))
    expect(page.locator("main")).to_contain_text(str(NUMBER))

    for view in ("network", "settings"):
        page.goto(f"{evil.url}/#/{view}")
        harmless(page, page.get_by_role("heading", level=1))


def test_what_the_dialog_shows_is_exactly_what_runs(evil: PageNode, tab: Tab) -> None:
    page = tab(evil)
    say(page, "spend")
    shown = question(page).locator(".question-arguments")
    for exact in (f'"account": {NUMBER}', '"rate": -0.0', r'"plan.txt \u202efdp.exe\u200b\u00a0 "', f'"n": {10**30}'):
        expect(shown).to_contain_text(exact)
    harmless(page, shown)
    shown.get_by_role("button").click()
    expect(shown).to_contain_text('rm -rf /"')
    question(page).get_by_role("button", name="Allow once").click()
    answered(page, "It is spent.")

    say(page, "spend")
    question(page).get_by_role("button", name="Edit").click()
    text = question(page).locator("textarea")
    written = text.input_value()
    assert written.isascii() or printable(written, keep="\n") == written
    text.fill(written.replace('"account"', '"account": 1, "account"'))
    question(page).get_by_role("button", name="Run with these").click()
    expect(question(page).get_by_role("alert")).to_contain_text("'account' occurs twice")
    text.fill(written.replace(str(NUMBER), str(NUMBER + 2)))
    question(page).get_by_role("button", name="Run with these").click()
    answered(page, "It is spent.")
    spent = [literal_eval(line) for line in (evil.folder / "spent.txt").read_text(encoding="utf-8").splitlines()]
    assert repr(spent) == repr([GIVEN, {**GIVEN, "account": NUMBER + 2}])


def test_a_megabyte_of_anything_leaves_the_page_alive(evil: PageNode, tab: Tab) -> None:
    page = tab(evil)
    for tool in ("one_line", "no_words", "deep"):
        say(page, tool)
        answered(page, "That was it.")
        done = card(page, f"evil:{tool}")
        done.locator("summary").click()
        more = done.locator(".long-box").last.get_by_role("button")
        for _ in range(2 if tool != "deep" else 0):
            more.click()
        harmless(page, done.locator(".long").last)
    assert page.evaluate("document.querySelectorAll('*').length") < 5_000
    say(page, "hello")
    answered(page, "Hello! What shall we do?")


def test_a_conversation_of_a_stranger_is_words_and_nothing_else(evil: PageNode, tab: Tab, tmp_path: Path) -> None:
    beyond = 10**17  # no date that a browser knows
    svg = f"<svg xmlns='http://www.w3.org/2000/svg'>{SCRIPT}</svg>".encode()
    named = f"{HOSTILE}.svg"
    messages: tuple[Message, ...] = (
        SupervisorMessage(HOSTILE, beyond),
        DocumentMessage(named, HOSTILE, -beyond),
        UserMessage(
            (
                Text(f"read this {HOSTILE}"),
                Media(media_type="image/png", url="javascript:window.stolen=1", name=named),
                Media(media_type="image/svg+xml", data=svg, name=named),
                Media(media_type="image/png", data=svg, name=named),
            ),
            beyond,
        ),
        AssistantMessage(HOSTILE, beyond, HOSTILE),
        InvocationMessage(ToolCall("c1", f"evil:{HOSTILE}", {"__proto__": {"polluted": HOSTILE}, HOSTILE: 1}), beyond),
        ResultMessage(
            ToolResult("c1", HOSTILE, HOSTILE, "failed", Problem(HOSTILE, HOSTILE), duration_us=beyond), beyond
        ),
        AssistantMessage("That is all of it.", beyond),
    )
    file = tmp_path / "stranger.json"
    file.write_bytes(msgspec.json.encode(SharedConversation(title=HOSTILE, messages=messages)))
    page = tab(evil)
    page.locator("nav input[type=file]").set_input_files(file)
    answered(page, "That is all of it.")
    page.evaluate("document.querySelectorAll('main details').forEach((each) => (each.open = true))")
    harmless(page, page.get_by_text("read this"))
    expect(page.locator(".tool-card")).to_have_count(1)
    say(page, "hello")
    answered(page, "Hello! What shall we do?")
