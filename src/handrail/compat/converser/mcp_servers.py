"""The converser's words for MCP servers: a client, the tools it lists, and an invoker of each.

mcp_client = MCPClient("stdio://weather-server")
for tool in await mcp_client.list_tools():
    io_ensemble.register(create_invoker_from_mcp_tool(tool, mcp_client))

`McpEnsemble` is the same with a life of its own: use it where you can choose.
"""

from __future__ import annotations

import shlex
from typing import Any, Unpack
from urllib.parse import urlsplit

from handrail.core.calls import ToolCall
from handrail.core.closing import ClosedOnExit
from handrail.core.context import Context
from handrail.core.errors import ToolError, UsageError
from handrail.core.ids import new_id
from handrail.core.ports import Journal
from handrail.core.usage_checks import check_keyword_names, keyword_names
from handrail.execute.approvers import AnyApprover
from handrail.execute.executor import Executor
from handrail.execute.policy import Policy
from handrail.mcp.client.ensemble import ENSEMBLE_OPTIONS, mcp_ensemble
from handrail.mcp.values import Endpoint, HttpEndpoint, RemoteTool, StdioEndpoint
from handrail.sessions.session_engine import ExecutorParts
from handrail.tools.registry import registered
from handrail.tools.tool import Tool

MCPTool = RemoteTool


class MCPClient(ClosedOnExit):
    """One server, by `stdio://program argument …` or its address. It is connected when it is first used."""

    def __init__(
        self,
        server: str | Endpoint,
        *,
        name: str | None = None,
        policy: Policy = Policy(),
        approver: AnyApprover | None = None,
        journal: Journal | None = None,
        options: dict[str, Any] | None = None,
        **parts: Unpack[ExecutorParts],
    ) -> None:
        check_keyword_names("MCPClient", parts, keyword_names(MCPClient) | ExecutorParts.__annotations__.keys())
        check_keyword_names("options of MCPClient", options or (), ENSEMBLE_OPTIONS)
        endpoint = _endpoint(server) if isinstance(server, str) else server
        self.ensemble = mcp_ensemble(name or _name(endpoint), endpoint, required=True, **(options or {}))
        self._executor: Executor | None = None
        self._offered: tuple[Tool, ...] = ()
        self._run = ""
        self._settings: dict[str, Any] = {"policy": policy, "approver": approver, "journal": journal, **parts}

    async def list_tools(self) -> list[MCPTool]:
        """What the server offers and can be used.

        Raises:
            McpError: The server cannot be reached, or not be understood.
        """
        await self.ensemble.prepare()
        return list(self.ensemble.remote.values())

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Call a tool through an executor, as every tool is called: checked, confirmed, bounded.

        Raises:
            ToolError: It was refused, failed, or took too long.
        """
        await self.ensemble.prepare()
        result = await self._current().invoke(ToolCall("", name, arguments or {}), Context(run=self._run))
        if result.error is not None:
            raise ToolError(result.error.code, result.error.message)
        return result.content

    def _current(self) -> Executor:
        """The executor, with what the server offers now. A run keeps its tools, so with others another begins."""
        offered = self.ensemble.tools
        if self._executor is None:
            self._executor = Executor([self.ensemble], **self._settings)
            self._run = self._executor.run
        elif offered != self._offered:
            self._executor.renew(registered(self.ensemble))
            self._run = self._settings.get("new_id", new_id)("run")
        self._offered = offered
        return self._executor

    async def aclose(self) -> None:
        executor, self._executor = self._executor, None
        try:
            if executor is not None:
                await executor.aclose()
        finally:
            await self.ensemble.close()


def create_invoker_from_mcp_tool(tool: MCPTool, client: MCPClient) -> Tool:
    """A tool of the server, for any ensemble. It works as long as its client is open.

    Raises:
        UsageError: The client does not offer it.
    """
    found = client.ensemble.offered(tool.name)
    if found is None:
        raise UsageError(f"server {client.ensemble.name!r} offers no tool {tool.name!r}; take one that it lists")
    return found


def _endpoint(server: str) -> Endpoint:
    if server.startswith("stdio://"):
        words = shlex.split(server.removeprefix("stdio://"))
        if words:
            return StdioEndpoint(command=words[0], args=tuple(words[1:]))
    if server.startswith(("http://", "https://")):
        return HttpEndpoint(url=server)
    raise UsageError(f"{server!r} is not an MCP server; write stdio://program, http://… or https://…")


def _name(endpoint: Endpoint) -> str:
    if isinstance(endpoint, StdioEndpoint):
        return endpoint.command.rpartition("/")[2]
    where = urlsplit(endpoint.url)  # without the name and the password that may stand in it
    port = "" if where.port is None else f"_{where.port}"
    return f"{where.hostname or ''}{port}".replace(":", "_")
