"""The connections of one server to which each user goes with a credential of their own.

Each is an ensemble of its own: what one user's connection hears, loses or is asked
never touches the calls of another. It is made for the first call of its user.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from handrail.core.errors import Forbidden, LimitReached, ServerLost
from handrail.core.invocation import Invocation
from handrail.core.redact import remember_secret
from handrail.mcp.client.server_questions import ClientRefused, ClientRelay, Kind
from handrail.mcp.values import HttpEndpoint, McpBounds

if TYPE_CHECKING:
    from handrail.mcp.client.ensemble import McpEnsemble

logger = logging.getLogger(__name__)


class _UserServer:
    """The connection of one user, its calls in progress, and the timer that closes it when it is idle."""

    def __init__(self, server: McpEnsemble) -> None:
        self.server = server
        self.calls = 0
        self.ending: asyncio.TimerHandle | None = None


class UserServers:
    """Opens the connection of a user for their first call, and closes it when it was idle or another needs the room."""

    def __init__(
        self, name: str, endpoint: HttpEndpoint, bounds: McpBounds, make: Callable[[HttpEndpoint], McpEnsemble]
    ) -> None:
        self._name = name
        self._endpoint = endpoint
        self._bounds = bounds
        self._make = make
        self._open: dict[str, _UserServer] = {}
        """By principal, the one that was used last at the end."""
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False
        for headers in endpoint.users.values():
            for value in headers.values():
                remember_secret(value)
                remember_secret(value.rpartition(" ")[2])  # without the scheme, as servers quote it

    def has_own(self, principal: str) -> bool:
        """Whether the principal goes with a credential of its own. If not, the shared one may be used.

        Raises:
            Forbidden: It has none, and may not use the shared one.
        """
        if principal in self._endpoint.users:
            return True
        if self._endpoint.other_users == "shared":
            return False
        raise Forbidden(
            f"MCP server {self._name!r} is called with the credential of each user, and {principal!r} has none; to"
            f' configure one, add "{principal}" with its headers to the table users of this server'
            f' ([mcp.{self._name}.users."{principal}"])'
        )

    @asynccontextmanager
    async def using(self, principal: str) -> AsyncIterator[McpEnsemble]:
        """The server as the principal goes to it. It is not closed meanwhile.

        Raises:
            LimitReached: As many users as may be connected at once have calls in progress.
            ServerLost: There is no connection with their credential.
        """
        entry = self._entry(principal)
        entry.calls += 1
        try:
            await entry.server.prepare()
            if entry.server.problem and entry.server.connection.state != "ready":
                why = entry.server.connection.diagnosis or entry.server.problem
                raise ServerLost(self._name, f"there is no connection for {principal!r}: {why}", sent=False)
            yield entry.server
        finally:
            entry.calls -= 1
            if not entry.calls and self._open.get(principal) is entry:
                loop = asyncio.get_running_loop()
                entry.ending = loop.call_later(self._bounds.user_idle, self._end, principal)

    def _entry(self, principal: str) -> _UserServer:
        if self._closed:
            raise ServerLost(self._name, "the connection was closed", sent=False)
        entry = self._open.pop(principal, None)
        if entry is None:
            self._make_room()
            entry = _UserServer(self._make(self._endpoint.of_user(principal)))
        elif entry.ending is not None:
            entry.ending.cancel()
        self._open[principal] = entry
        return entry

    def _make_room(self) -> None:
        while len(self._open) >= self._bounds.user_connections:
            idle = next((principal for principal, entry in self._open.items() if not entry.calls), None)
            if idle is None:
                raise LimitReached(
                    f"{len(self._open)} users have calls in progress at MCP server {self._name!r}, and no more can be"
                    " connected to it at once; try again later"
                )
            self._end(idle)

    def _end(self, principal: str) -> None:
        entry = self._open.pop(principal)
        if entry.ending is not None:
            entry.ending.cancel()
        task = asyncio.get_running_loop().create_task(self._shut(entry.server), name=f"handrail-mcp-{self._name}-end")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _shut(self, server: McpEnsemble) -> None:
        try:
            await server.close()
        except Exception:
            logger.exception("the connection of a user to MCP server %r could not be closed", self._name)

    async def aclose(self) -> None:
        self._closed = True
        for principal in tuple(self._open):
            self._end(principal)
        if self._closing:
            await asyncio.wait(self._closing)


class OwnCallsRelay:
    """A `ClientRelay` for the connection of one user: what belongs to no call of theirs reaches no client."""

    def __init__(self, relay: ClientRelay) -> None:
        self._relay = relay

    @property
    def shakes_hands(self) -> bool:
        return self._relay.shakes_hands

    @property
    def answers(self) -> frozenset[Kind]:
        return self._relay.answers

    @property
    def extensions(self) -> Mapping[str, dict[str, Any]]:
        return self._relay.extensions

    async def ask(
        self, server: str, method: str, params: dict[str, Any], calls: Collection[Invocation]
    ) -> dict[str, Any]:
        if not calls:
            raise ClientRefused(-32601, "no call is in progress that this question could belong to")
        return await self._relay.ask(server, method, params, calls)

    def tell(self, server: str, method: str, params: dict[str, Any], calls: Collection[Invocation]) -> None:
        if calls:
            self._relay.tell(server, method, params, calls)
