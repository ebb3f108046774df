"""The page under load: a conversation of 1,000 messages, 200 tools, a long streamed answer, in a real browser.

It counts bytes until the first paint, and looks in Chromium's own trace for tasks of the main thread that take over
50 ms, the limit beyond which people feel that a page hangs. Aims: 150 KB, and none.
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
from typing import Any

from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.messages import AssistantMessage, Conversation, InvocationMessage, ResultMessage
from handrail.store.conversations import ConversationStore

MESSAGES, TOOLS, WORDS = 1_000, 200, 3_000
LONGEST_MS, FIRST_PAINT = 50.0, 150 * 1024
CATEGORIES = "devtools.timeline,disabled-by-default-devtools.timeline"
TALK = "run_0000000000000000000000000bench"


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, served(house(Path(folder))) as address, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1280, "height": 860})
        page = context.new_page()
        page.goto(address)
        expect(page.get_by_role("navigation").first).to_be_visible()
        weight = page.evaluate(
            "() => performance.getEntries().filter(e => e.transferSize && e.startTime <= performance"
            ".getEntriesByName('first-contentful-paint')[0].startTime).reduce((sum, e) => sum + e.transferSize, 0)"
        )
        tasks = {
            name: longest(context, page, lambda scene=scene: scene(page, address)) for name, scene in SCENES.items()
        }
        browser.close()
    say(f"{'first paint':<28} {weight / 1024:6.1f} KB   (aim: under {FIRST_PAINT // 1024})")
    for name, found in tasks.items():
        say(f"{name:<28} {found[0]:6.1f} ms   longest task; {found[1]} over {LONGEST_MS:g} ms (aim: none)")
    print(json.dumps({"first_paint": weight, "longest_ms": {name: found[0] for name, found in tasks.items()}}))
    return int(weight >= FIRST_PAINT or any(found[1] for found in tasks.values()))


# ── what is done while it is traced ──────────────────────────────────────────────────


def open_long(page: Page, address: str) -> None:
    page.goto(f"{address.partition('#')[0]}#/chat/{TALK}")
    expect(page.get_by_text(f"answer {MESSAGES // 4 - 1} ")).to_be_visible()


def scroll_up(page: Page, address: str) -> None:
    page.get_by_text(f"answer {MESSAGES // 4 - 1} ").hover()
    for _ in range(60):
        page.mouse.wheel(0, -1_500)
        page.wait_for_timeout(30)


def hear(page: Page, address: str) -> None:
    page.get_by_role("textbox", name="Say something").fill("speak")
    page.keyboard.press("Enter")
    expect(page.get_by_text(f"word{WORDS - 1}")).to_be_visible(timeout=60_000)


def tools(page: Page, address: str) -> None:
    page.get_by_role("navigation").get_by_role("link", name="Tools").click()
    expect(page.get_by_text(f"tool_{TOOLS - 1}").first).to_be_attached()
    page.get_by_role("searchbox").first.fill("tool_19")
    expect(page.get_by_text("tool_199").first).to_be_visible()


SCENES = {
    "1,000 messages opened": open_long,
    "scrolled through": scroll_up,
    "3,000 words streamed": hear,
    "200 tools listed, searched": tools,
}


def longest(context: BrowserContext, page: Page, scene: Any) -> tuple[float, int]:
    """The longest task of the page's main thread while this happens, in milliseconds, and how many were too long."""
    session = context.new_cdp_session(page)
    events: list[dict[str, Any]] = []
    over: list[bool] = []
    session.on("Tracing.dataCollected", lambda data: events.extend(data["value"]))
    session.on("Tracing.tracingComplete", lambda data: over.append(True))
    session.send("Tracing.start", {"categories": CATEGORIES, "transferMode": "ReportEvents"})
    scene()
    session.send("Tracing.end")
    while not over:
        page.wait_for_timeout(50)
    main = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = [
        event["dur"] / 1000
        for event in events
        if event["name"] == "RunTask" and event.get("dur") and (event["pid"], event["tid"]) in main
    ]
    session.detach()
    return max(tasks, default=0.0), sum(each > LONGEST_MS for each in tasks)


# ── what is looked at ────────────────────────────────────────────────────────────────


CONFIG = """
default_model = "clerk"
ensembles = ["many.toml"]

[models.clerk]
provider = "scripted"
model = "say.toml"
"""
TOOL = """
[[invokers]]
name = "tool_{0}"
description = "Does thing {0}."
python = "json:loads"

[invokers.arguments]
type = "object"
"""


def house(folder: Path) -> Path:
    words = " ".join(f"word{index}" for index in range(WORDS))
    (folder / "handrail.toml").write_text(CONFIG)
    (folder / "say.toml").write_text(f'[[reply]]\nwhen = "speak"\ntext = "{words}"\n')
    (folder / "many.toml").write_text('[ensemble]\nname = "many"\n' + "".join(map(TOOL.format, range(TOOLS))))
    ConversationStore(folder / ".handrail").save(TALK, long_talk(), title="A long one")
    return folder


def long_talk() -> Conversation:
    talk = Conversation()
    for at in range(MESSAGES // 4):
        talk = talk.say(f"question {at}: what is in file {at}?")
        said = f"I will look.\n\n```python\nread({at})\n```\n\nThen *think*: see `file {at}`."
        talk = talk.add(
            InvocationMessage(ToolCall(f"call_{at}", "many:tool_1", {"file": at, "why": "to see " * 20})),
            ResultMessage(ToolResult(f"call_{at}", "many:tool_1", {"text": "line\n" * 40, "at": at})),
            AssistantMessage(f"answer {at} is here. {said}"),
        )
    return talk


@contextmanager
def served(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "handrail", "serve", "--json", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None
            yield str(json.loads(node.stdout.readline())["page"])
        finally:
            node.terminate()


def say(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
