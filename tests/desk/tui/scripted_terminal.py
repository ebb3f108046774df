"""A folder with tools and a scripted model, a desk over it, and somebody at the terminal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.events import Event, Key, Paste
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Static

from handrail.app import AppAdditions, Person
from handrail.config.approvals import Approvals
from handrail.config.load import load_config
from handrail.core.messages import Conversation
from handrail.desk.desk import Desk, open_desk
from handrail.desk.tui.app import TuiApp
from handrail.desk.tui.call_card import CallCard
from handrail.desk.tui.chat import PromptArea
from handrail.desk.tui.question import QuestionScreen
from handrail.sessions.store.conversations import ConversationStore
from tests.approved import approve
from tests.polling import until, until_asked
from tests.replies import HELLO, LOG_IN, PAY, calls

PATIENCE = 30
"""Seconds after which something that does not come is taken not to."""
HOSTILE = (
    "<script>alert(1)</script> \x1b[2J\x1b]52;c;eA==\x07 \u202egpj.exe\u202c z\u200bw "
    "[red]no markup[/] [@click=app.quit]x[/]"
)
TOOLS = '''
import asyncio
from pathlib import Path

from handrail import Invocation, Secret, tool

HOSTILE = {hostile!r}
going_on = asyncio.Event()


@tool(side_effects=False)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(side_effects=True)
def pay(to: str, amount: int) -> str:
    """Pay someone."""
    with Path("paid.txt").open("a") as file:
        file.write(f"{{to}} {{amount}}\\n")
    return f"paid {{amount}} to {{to}}"


@tool(side_effects=False)
def fail(why: str) -> str:
    """Fail."""
    raise RuntimeError(why)


@tool(side_effects=False)
async def wait(context: Invocation) -> str:
    """Count, and wait at half."""
    context.progress(1, 2, "half way")
    await going_on.wait()
    return "waited"


@tool(side_effects=False)
def hostile() -> str:
    """Answer in a way that steers terminals."""
    return HOSTILE


@tool(side_effects=False, max_output=2_000_000)
def flood() -> str:
    """Answer with a megabyte."""
    return "0123456789abcde\\n" * 65_536


@tool(side_effects=True)
def log_in(user: str, password: Secret) -> str:
    """Log somebody in."""
    return "welcome"
'''
SCRIPT = (
    calls("sum", "add", "a = 1, b = 2", first="Let me **see**.", then="It is *3*.")
    + PAY
    + calls("fail", "fail", 'why = "the disk is full"', then="That did not work.")
    + calls("wait", "wait", then="Waited.")
    + calls("hostile", "hostile", first="&#27;[2J &#x202e; <b>bold</b> [click](javascript:alert)", then="Seen.")
    + calls("flood", "flood", then="Much.")
    + LOG_IN
    + """
[[reply]]
when = "break"
error = "model_unavailable"
text = "the service is down"
"""
    + HELLO
)
CONFIG = """
default_model = "demo"
ensembles = ["box.toml", "odd.toml"]

[models.demo]
provider = "scripted"
model = "script.toml"

[models.other]
provider = "scripted"
model = "script.toml"
"""


ENSEMBLES = {"box": ("add", "pay", "fail", "wait"), "odd": ("hostile", "flood", "log_in")}


def fill_folder(folder: Path) -> Path:
    for name, tools in ENSEMBLES.items():
        invokers = "".join(f'[[invokers]]\nname = "{each}"\npython = "tui_tools:{each}"\n' for each in tools)
        (folder / f"{name}.toml").write_text(f'[ensemble]\nname = "{name}"\n\n{invokers}', encoding="utf-8")
    (folder / "tui_tools.py").write_text(TOOLS.format(hostile=HOSTILE), encoding="utf-8")
    (folder / "script.toml").write_text(SCRIPT, encoding="utf-8")
    (folder / "handrail.toml").write_text(CONFIG, encoding="utf-8")
    approve(folder / "handrail.toml")
    return folder


@dataclass(frozen=True, slots=True)
class ScriptedTerminal:
    """The program as a person has it before them."""

    app: TuiApp
    pilot: Pilot[None]
    desk: Desk
    folder: Path

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait for something to be so."""
        try:
            await until(holds, seconds=PATIENCE)
        except TimeoutError:
            raise AssertionError(f"it never came; the screen was:\n{self.screen}") from None

    async def says(self, text: str) -> None:
        await self.until(lambda: text in self.screen)

    async def at(self, kind: type[Screen[Any]]) -> None:
        """Until a screen of this kind is the one above, has its widgets, and one of them takes the keys."""

        def ready() -> bool:
            screen = self.app.screen
            return isinstance(screen, kind) and screen.is_mounted and bool(screen.focused or not screen.focus_chain)

        await self.until(ready)

    async def press(self, *keys: str) -> None:
        """One after the other. The pilot's own way waits for widgets that a key has closed, and for an idle CPU."""
        for key in keys:
            await self._do(Key(key, key if len(key) == 1 else None))

    async def say(self, words: str) -> None:
        """Type it and send it."""
        await self.type(words)
        await self.press("enter")
        await self.until(lambda: not self.app.chat.query_one(PromptArea).text)

    async def type(self, words: str) -> None:
        """As a paste: a key at a time takes long."""
        await self._do(Paste(words))

    async def _do(self, event: Event) -> None:
        """As the terminal tells it; until it went through whoever it concerns."""
        self.app.post_message(event)
        for _ in range(2):
            for each in (self.app, self.app.screen, self.app.focused):
                if each is not None:
                    taken = asyncio.Event()
                    each.call_later(taken.set)
                    await self.until(lambda each=each, taken=taken: taken.is_set() or not each.is_running)  # type: ignore[misc]

    async def idle(self) -> None:
        """Until no turn is under way, and the screen knows it."""
        state = ""

        async def ended() -> bool:
            nonlocal state
            state = next((each.state for each in await self.desk.talks() if each.id == self.app.chat.talk), "")
            return state in ("idle", "failed")

        await until_asked(ended)
        await self.until(lambda: self.app.chat.state == state)

    async def asked(self) -> QuestionScreen:
        """Until a question is there to be read."""
        await self.until(lambda: isinstance(self.app.screen, QuestionScreen) and "Later" in self.screen)
        ask = self.app.screen
        assert isinstance(ask, QuestionScreen)
        return ask

    async def press_button(self, id: str) -> None:
        """By keys alone."""
        await self.press("tab")
        await self.until(lambda: self.app.focused is not None)
        while self.app.focused is None or self.app.focused.id != id:
            await self.press("tab")
        await self.press("enter")

    @property
    def screen(self) -> str:
        """What stands on the screen, line by line."""
        with self.app._context():  # a widget that is being removed finds its program nowhere else
            lines = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in lines)

    @property
    def cards(self) -> list[CallCard]:
        return list(self.app.chat.query(CallCard))

    def static(self, selector: str) -> str:
        return str(self.app.screen.query(selector).first(Static).visual)

    @property
    def paid(self) -> list[str]:
        path = self.folder / "paid.txt"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@asynccontextmanager
async def terminal(
    folder: Path, talk: Conversation | None = None, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[ScriptedTerminal]:
    """The program over the tools and the model of that folder; with a conversation that was kept there before."""
    journal = folder / ".handrail" / "journal.db"
    if talk is not None:
        journal.parent.mkdir()
        ConversationStore(journal.parent).save("run_before", talk)
    person = Person(by="ada", approvals=Approvals(folder / "approvals.toml"), tell=lambda line: None)
    async with open_desk(load_config(folder / "handrail.toml"), journal, AppAdditions(), person) as desk:
        app = TuiApp(desk, "run_before" if talk is not None else await desk.begin())
        app.animation_level = "none"
        async with app.run_test(size=size, notifications=True) as pilot:
            there = ScriptedTerminal(app, pilot, desk, folder)
            yield there
            app.workers.cancel_all()  # as when the program ends by itself
            await there.until(lambda: all(each.is_finished for each in app.workers))


def forget_calls() -> None:
    """The tools are imported anew for each test."""
    sys.modules.pop("tui_tools", None)
