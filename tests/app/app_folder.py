"""A folder with a configuration, MCP servers that are files, and a person whose word counts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from handrail.app import App, AppAdditions, Person, open_app
from handrail.config.approvals import Approvals
from handrail.config.load import load_config
from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.mcp.values import Endpoint
from tests.mcp.servers.described_server import command, describe


class AppFolder:
    """The folder, and what was told and asked there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.approvals = Approvals(folder / "state")
        self.told: list[str] = []
        self.asked: list[str] = []
        self.says_yes = True
        self.asks = True
        self.meanwhile: Callable[[], object] | None = None
        """Done while the person is asked."""

    @property
    def person(self) -> Person:
        async def consent(server: str, endpoint: Endpoint, why: str) -> bool:
            self.asked.append(f"{server}: {why}")
            if self.meanwhile is not None:
                self.meanwhile()
            return self.says_yes

        return Person(by="ada", approvals=self.approvals, tell=self.told.append, consent=consent if self.asks else None)

    def server(self, name: str, *tools: dict[str, Any], **more: Any) -> str:
        """The lines of a server in `handrail.toml`, whose file of tools is there."""
        file = describe(self.folder / f"{name}.json", *tools, **more)
        return f"[mcp.{name}]\ncommand = {json.dumps(command(file))}\n"

    def config(self, text: str) -> Path:
        path = self.folder / "handrail.toml"
        path.write_text(text, encoding="utf-8")
        return path

    @asynccontextmanager
    async def app(self, text: str | None = None, wanted: AppAdditions = AppAdditions()) -> AsyncIterator[App]:
        path = self.folder / "handrail.toml" if text is None else self.config(text)
        async with open_app(
            load_config(path), self.folder / ".handrail" / "journal.db", wanted, person=self.person
        ) as app:
            yield app


def names(app: App) -> list[str]:
    return [tool.scoped_name for tool in app.tools if tool.name != "read_output"]


async def call(app: App, tool: str, run: str = "", **arguments: Any) -> ToolResult:
    return await app.executor.invoke(ToolCall("", tool, arguments), Context(run=run))
