"""How what a server behind us asks and says gets to a client, in the words of the official package."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from mcp.server.connection import Connection
from mcp.shared.exceptions import MCPError

from handrail.mcp.client.server_questions import ClientRefused
from handrail.mcp.server.caller import Request
from handrail.mcp.server.passed_calls import LOG, send_passed
from handrail.mcp.server.question_wire import connection_wants, pass_question


class SdkRelayWire:
    """See `RelayWire`."""

    def __init__(self, connections: Collection[Connection]) -> None:
        self._connections = connections

    def connected(self) -> tuple[Connection, ...]:
        return tuple(each for each in self._connections if each.initialized.is_set())

    async def ask_in(self, request: Request, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return await pass_question(request, method, params)

    async def tell_in(self, request: Request, method: str, params: dict[str, Any]) -> None:
        await send_passed(request, method, params)

    async def ask(self, client: Connection, method: str, params: dict[str, Any]) -> dict[str, Any]:
        try:
            return await client.outbound.send_raw_request(method, params)
        except MCPError as error:
            raise ClientRefused(error.code, error.message, error.data) from error

    async def tell(self, client: Connection, method: str, params: dict[str, Any]) -> None:
        if method != LOG or connection_wants(client, params.get("level")):
            await client.outbound.notify(method, params)
