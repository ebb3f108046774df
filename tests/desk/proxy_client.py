"""An MCP proxy beside a desk, in a process of its own, and a client of it that cannot ask a person."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mcp import Client, StdioServerParameters

from tests import prestarted

TOOLS = '''
from handrail import tool

@tool(side_effects=True)
def note(text: str) -> str:
    """Write a note."""
    open("notes.txt", "a").write(text + "\\n")
    return "noted"
'''


def proxy(folder: Path) -> Client:
    """A client that cannot ask, of a proxy in a process of its own that shares the journal of the desk."""
    (folder / "proxy").mkdir(exist_ok=True)
    (folder / "proxy" / "handrail.toml").write_text("")
    (folder / "proxy" / "tools.py").write_text(TOOLS)
    journal = str(folder / ".handrail" / "journal.db")
    python, *rest = prestarted.command()
    server = StdioServerParameters(
        command=python,
        args=[*rest, "-m", "handrail", "--journal", journal, "mcp", "serve", "--tools", "tools.py"],
        cwd=folder / "proxy",
        env={"PATH": os.environ["PATH"], "XDG_STATE_HOME": str(folder / "home")},
    )
    return Client(server, mode="legacy")


def call_note(folder: Path, text: str) -> bool:
    """Start a proxy, call its tool once and end it; whether the call ran. It can be used beside a browser's loop."""

    async def call() -> bool:
        async with proxy(folder) as client:
            return not (await client.call_tool("note", {"text": text})).is_error

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, call()).result()
