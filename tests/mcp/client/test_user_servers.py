"""What a server says on the connection of one user, where handrail stands between it and several clients."""

from __future__ import annotations

from typing import Any

import pytest

from handrail.mcp.client.server_questions import ClientRefused
from handrail.mcp.client.user_servers import OwnCallsRelay
from handrail.mcp.server.client_approver import ClientApprover
from handrail.mcp.server.client_relay import McpClientRelay


class OneClient:
    """The wire to one client, which takes everything."""

    def __init__(self) -> None:
        self.got: list[str] = []

    def connected(self) -> tuple[Any, ...]:
        return ("client",)

    async def ask(self, client: Any, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.got.append(method)
        return {}

    async def tell(self, client: Any, method: str, params: dict[str, Any]) -> None:
        self.got.append(method)

    ask_in = ask
    tell_in = tell


async def test_what_belongs_to_no_call_of_the_user_reaches_no_client() -> None:
    wire, relay = OneClient(), McpClientRelay(ClientApprover())
    relay.attach(wire)
    of_user = OwnCallsRelay(relay)

    of_user.tell("docs", "notifications/message", {}, ())
    with pytest.raises(ClientRefused, match="no call is in progress"):
        await of_user.ask("docs", "roots/list", {}, ())
    await relay.flush()
    untold = list(wire.got)
    relay.tell("docs", "notifications/message", {}, ())
    await relay.ask("docs", "roots/list", {}, ())
    await relay.flush()

    assert (untold, sorted(wire.got)) == ([], ["notifications/message", "roots/list"])
    assert (of_user.answers, of_user.extensions, of_user.shakes_hands) == (relay.answers, {}, False)
