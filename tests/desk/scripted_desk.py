"""A desk in a folder of its own: tools that a test can hold up, a scripted model, and somebody who follows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from handrail import Invocation, Secret, ToolError, tool
from handrail.app import Person
from handrail.config.approvals import Approvals
from handrail.config.load import load_config
from handrail.desk.desk import Desk, open_desk
from handrail.desk.values import ConversationEvent, ConversationItem, ConversationSnapshot, DeskQuestion

PATIENCE = 20

_CONFIG = """
default_model = "first"
ensembles = ["notes.toml", "doors.toml"]

[models.first]
provider = "scripted"
model = "first.json"

[models.second]
provider = "scripted"
model = "second.json"

[models.none]
provider = "scripted"
model = "is-not-there.json"
"""
_ENSEMBLES = {
    "notes": ("add", "write", "fail", "picture", "tell"),
    "doors": ("unlock", "hold", "hold_write", "stubborn"),
}


class Gate:
    """Where a tool says that it is there, and waits."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def pass_through(self) -> None:
        self.reached.set()
        await self.open.wait()


class Done:
    """What the tools of one test did."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.gate = Gate()


_NOW: list[Done] = [Done()]
"""Of the test that runs now; a new parlour puts another in its place."""


@tool(side_effects=False)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(side_effects=True)
async def write(path: str, text: str = "") -> str:
    """Write a note."""
    _NOW[0].written.append(path)
    return f"wrote {path}"


@tool(side_effects=False)
async def fail(why: str = "no luck") -> str:
    """Fail."""
    raise ToolError("NO_LUCK", why)


@tool(side_effects=False)
async def tell(length: int) -> str:
    """Say something long."""
    return "x" * length


@tool(side_effects=False)
async def picture() -> Any:
    """A picture."""
    from handrail.core.calls import Attachment, Output

    return Output(output="here", attachments=(Attachment("p.png", "image/png", b"\x89PNG"),))


@tool(side_effects=True)
async def unlock(door: str, code: Secret) -> str:
    """Unlock a door."""
    _NOW[0].written.append(f"{door} {code!s}")
    return "open"


@tool(side_effects=False)
async def hold(context: Invocation) -> str:
    """Wait until the test lets it go."""
    context.progress(1, 2, "half")
    await _NOW[0].gate.pass_through()
    return "let go"


@tool(side_effects=True)
async def hold_write(path: str) -> str:
    """Write, and wait until the test lets it go."""
    _NOW[0].written.append(path)
    await _NOW[0].gate.pass_through()
    return f"wrote {path}"


@tool(side_effects=False)
async def stubborn() -> str:
    """Does not end when it is told to."""
    gate = _NOW[0].gate
    try:
        await gate.pass_through()
    except asyncio.CancelledError:
        await gate.open.wait()
        raise
    return "done"


def reply(text: str = "", *calls: tuple[str, dict[str, Any] | str], **more: Any) -> dict[str, Any]:
    made = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return {"text": text, "calls": made, **more}


class ScriptedDesk:
    def __init__(self, folder: Path, replies: Sequence[dict[str, Any]] = ()) -> None:
        self.folder = folder
        self.done = _NOW[0] = Done()
        self.told: list[str] = []
        folder.mkdir(exist_ok=True)
        (folder / "handrail.toml").write_text(_CONFIG)
        for name, tools in _ENSEMBLES.items():
            lines = [f'[ensemble]\nname = "{name}"\n']
            lines += [f'[[invokers]]\nname = "{each}"\npython = "{__name__}:{each}"\n' for each in tools]
            (folder / f"{name}.toml").write_text("\n".join(lines))
        self.script(*(replies or (reply("Hello."),)))
        self.script(reply("I am the second.", when="who"), name="second")

    def script(self, *replies: dict[str, Any], name: str = "first") -> None:
        (self.folder / f"{name}.json").write_text(json.dumps({"reply": replies, "name": name}))

    @property
    def gate(self) -> Gate:
        return self.done.gate

    @asynccontextmanager
    async def open(self, folder: Path | None = None) -> AsyncIterator[Desk]:
        here = folder or self.folder
        person = Person(by="ada", approvals=Approvals(here / "state"), tell=self.told.append)
        config = load_config(here / "handrail.toml")
        async with asyncio.timeout(PATIENCE):
            async with open_desk(config, here / ".handrail" / "journal.db", person=person, look=None) as desk:
                yield desk


async def until(
    desk: Desk, id: str, fits: Callable[[ConversationSnapshot], bool], after: int | None = None
) -> ConversationSnapshot:
    """Wait until the conversation stands so."""
    async with aclosing(desk.follow(id, after)) as events:
        async for _ in events:
            if fits(shown := await snapshot(desk, id)):
                return shown
    raise AssertionError("the conversation ended before it stood so")


async def snapshot(desk: Desk, id: str) -> ConversationSnapshot:
    async with aclosing(desk.follow(id)) as events:
        async for event in events:
            assert isinstance(event, ConversationSnapshot)
            return event
    raise AssertionError("nothing was told")


def at_rest(shown: ConversationSnapshot) -> bool:
    return shown.state in ("idle", "failed") or (shown.state == "waiting" and not shown.questions)


async def over(desk: Desk, id: str) -> ConversationSnapshot:
    return await until(desk, id, at_rest)


async def asked(desk: Desk, id: str) -> DeskQuestion:
    return (await until(desk, id, lambda shown: bool(shown.questions))).questions[0]


def kinds(shown: ConversationSnapshot) -> list[str]:
    return [item.kind for item in shown.items]


def texts(shown: ConversationSnapshot) -> list[str]:
    return [item.text.text for item in shown.items if item.text is not None]


def result(shown: ConversationSnapshot) -> ConversationItem:
    return next(item for item in reversed(shown.items) if item.kind == "result")


class Follower:
    """Keeps everything that it is told."""

    def __init__(self, desk: Desk, id: str, after: int | None = None) -> None:
        self.heard: list[ConversationSnapshot | ConversationEvent] = []
        self._begun = asyncio.Event()
        self._task = asyncio.create_task(self._follow(desk, id, after))

    async def _follow(self, desk: Desk, id: str, after: int | None) -> None:
        async for event in desk.follow(id, after):
            self.heard.append(event)
            self._begun.set()

    async def __aenter__(self) -> Follower:
        await self._begun.wait()
        return self

    async def end(self) -> None:
        """Wait until there is no more to hear."""
        await self._task

    async def __aexit__(self, *exc: object) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    def told(self, type: str) -> list[Any]:
        return [each.data for each in self.heard if isinstance(each, ConversationEvent) and each.type == type]
