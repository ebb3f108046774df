"""A folder with a configuration and some tools, and the views that a person has of it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from handrail.app import App, Person, open_app
from handrail.config.approvals import Approvals
from handrail.config.load import load_config
from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.desk.feed import DeskNews
from handrail.desk.questions import PendingQuestions
from handrail.desk.views.desk_views import DeskViews

ENSEMBLE = """
[ensemble]
name = "desk"

[[invokers]]
name = "add"
description = "Add two numbers.\\n\\nIn full."
python = "looked_at:add"

[[invokers]]
name = "fail"
description = "Fail."
python = "looked_at:fail"

[[invokers]]
name = "note"
description = "Write a note down."
python = "looked_at:note"
side_effects = true

[[invokers]]
name = "slowly"
description = "Write a note down when it may."
python = "looked_at:slowly"
side_effects = true

[[invokers]]
name = "open"
description = "Open a door."
python = "looked_at:unlock"

[[invokers]]
name = "climb"
description = "Climb, and say how far."
python = "looked_at:climb"

[[invokers]]
name = "stay"
description = "Stay for ever."
python = "looked_at:stay"
"""
CODE = """
import asyncio
from handrail import Invocation
from handrail.core.redact import Secret

notes = []
entered = []
left = []
go_on = asyncio.Event()

def add(a: int, b: int) -> int:
    return a + b

def fail() -> str:
    raise ValueError("no luck")

def note(text: str) -> str:
    notes.append(text)
    return "noted"

async def slowly(text: str) -> str:
    await go_on.wait()
    return note(text)

def unlock(code: Secret) -> str:
    return f"opened with {code}"

async def climb(invocation: Invocation) -> str:
    for step in (1, 2, 3):
        invocation.progress(step, 3, f"step {step}")
        await asyncio.sleep(0)
    return "<script>alert(1)</script>"

async def stay() -> str:
    entered.append(True)
    try:
        await asyncio.Event().wait()
    finally:
        left.append(True)
"""
CONFIG = 'ensembles = ["desk.toml"]\nrules = ["deny desk:rm_*", "allow desk:note text=tea"]\n'


class ViewsFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "handrail.toml"
        self.journal = folder / ".handrail" / "journal.db"
        self.told: list[str] = []
        self.asking = PendingQuestions()
        self.news = DeskNews()
        self.approvals = Approvals(folder / "state")
        self.file.write_text(CONFIG)
        (folder / "desk.toml").write_text(ENSEMBLE)
        (folder / "looked_at.py").write_text(CODE)

    @property
    def code(self) -> Any:
        """The module of the tools, as the program has it."""
        return sys.modules["looked_at"]

    @asynccontextmanager
    async def open(self, *, writable: bool = True, file: Path | None = None) -> AsyncIterator[tuple[App, DeskViews]]:
        person = Person(by="ada", approvals=self.approvals, tell=self.told.append)
        config = load_config(self.file if file is None and self.file.exists() else file)
        async with open_app(config, self.journal, ask=self.asking.knowing, person=person) as app:
            yield app, DeskViews(app, writable=writable, home=self.folder)


async def call(app: App, run: str, name: str, id: str = "", **arguments: Any) -> ToolResult:
    return await app.executor.invoke(ToolCall(id, name, arguments), Context(run=run))
