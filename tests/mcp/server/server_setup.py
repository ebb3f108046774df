"""A handrail server with real tools behind the SDK's own client, in either era."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp import Client

from handrail.core.context import LOCAL, Principal
from handrail.core.ports import Approver
from handrail.execute.executor import Executor
from handrail.execute.policy import Policy
from handrail.execute.rules import Rules
from handrail.execute.spill import MemorySpill
from handrail.mcp.server.build import build_mcp_server
from handrail.mcp.server.caller import CALL_KEY
from handrail.mcp.server.client_approver import ClientApprover
from handrail.mcp.server.definition import ChangeNotices, McpCaller, McpServerDefinition, ResourceSource, ServedPrompt
from handrail.testing.journal import MemoryJournal
from handrail.tools.registry import RegisteredTools, registered

LEGACY = "legacy"
MODERN = "2026-07-28"
ERAS = (LEGACY, MODERN)


@dataclass
class ServerSetup:
    """What is served, and its parts to look into."""

    tools: RegisteredTools
    policy: Policy = field(default_factory=Policy)
    rules: tuple[str, ...] = ()
    resources: tuple[ResourceSource, ...] = ()
    prompts: tuple[ServedPrompt, ...] = ()
    principal: Callable[[McpCaller], Principal] = lambda caller: LOCAL
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    notices: ChangeNotices = field(default_factory=ChangeNotices)

    def __post_init__(self) -> None:
        self.asker = ClientApprover()
        approver: Approver = Rules(self.rules, self.asker)
        self.spill = MemorySpill()
        self.executor = Executor(
            self.tools, policy=self.policy, approver=approver, journal=self.journal, spill=self.spill
        )
        self.served = McpServerDefinition(
            name="handrail-test",
            version="1.2.3",
            instructions="Use with care.",
            tools=lambda: self.tools,
            invoker=self.executor,
            asker=self.asker,
            resources=self.resources,
            prompts=self.prompts,
            principal=self.principal,
            spill=self.spill,
            finish=self.executor.finish,
            notices=self.notices,
        )

    @asynccontextmanager
    async def client(self, era: str, **options: Any) -> AsyncIterator[Client]:
        async with Client(build_mcp_server(self.served), mode=era, cache=None, **options) as client:
            yield client

    def renew(self, *tools: Any) -> None:
        """Serve other tools from now on."""
        self.tools = registered(*tools)
        self.executor.renew(self.tools)
        self.notices.changed("tools")

    def recorded(self, kind: type) -> list[Any]:
        return [event for event in self.journal.events if isinstance(event, kind)]


def scene(*tools: Any, **options: Any) -> ServerSetup:
    return ServerSetup(registered(*tools), **options)


def text(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


def keyed(key: str) -> Any:
    """What a client that sends a call again puts into its `_meta`."""
    return {CALL_KEY: key}
