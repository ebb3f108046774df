"""Ensembles of the server that is written by hand."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from handrail.mcp import McpBounds, McpEnsemble, StdioEndpoint, mcp_ensemble
from tests.polling import until

SERVER = Path(__file__).with_name("scripted_server_program.py")
QUICK = McpBounds(settle=0.01)

__all__ = ["QUICK", "SERVER", "ScriptedServer", "tool", "until"]


def tool(name: str, *, description: str = "", **facts: Any) -> dict[str, Any]:
    """A tool as a server lists it; hints are given by their names, as `readOnlyHint=True`."""
    hints = {key: facts.pop(key) for key in tuple(facts) if key.endswith("Hint")}
    schema = {"type": "object", "properties": {"do": {"type": "string"}}}
    return {"name": name, "description": description, "inputSchema": schema, "annotations": hints, **facts}


class ScriptedServer:
    """A folder for the server, and what it wrote there."""

    def __init__(self, folder: Path, *pages: list[dict[str, Any]] | str) -> None:
        self.folder = folder
        self.offer(*pages)
        self.changes = 0
        self._changed = asyncio.Event()

    def offer(self, *pages: Any) -> None:
        (self.folder / "pages.json").write_text(json.dumps(pages[0] if pages == ("endless",) else pages))

    def ensemble(self, name: str = "stall", **options: Any) -> McpEnsemble:
        endpoint = StdioEndpoint(command=sys.executable, args=(str(SERVER), str(self.folder)))
        return mcp_ensemble(name, endpoint, **{"bounds": QUICK, "on_change": self.note, **options})

    def note(self) -> None:
        """Other tools are offered."""
        self.changes += 1
        self._changed.set()

    async def changed(self) -> None:
        """Wait until other tools are offered."""
        await asyncio.wait_for(self._changed.wait(), 20)
        self._changed.clear()

    @property
    def log(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    async def logged(self, word: str) -> None:
        """Wait until the server has written a line with this word."""
        await until(lambda: any(word in line for line in self.log))
