"""Tells clients of both eras that something changed.

A modern client listens on a request of its own, which the library serves from a bus. One of the handshake era
is sent a notice on its connection, so the connections are known here for as long as they last, and no longer.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from handrail.core.timeouts import time_limit
from handrail.mcp.sdk_internals import connection_of
from handrail.mcp.server.caller import Request, is_modern
from handrail.mcp.server.definition import Listed

_PATIENCE = 10.0
"""Seconds that a client may take to accept a notice. One that does not read must not hold up the others."""
_EVENTS: dict[Listed, ServerEvent] = {
    "tools": ToolsListChanged(),
    "resources": ResourcesListChanged(),
    "prompts": PromptsListChanged(),
}
_SENDING: dict[Listed, Callable[[Connection], Awaitable[None]]] = {
    "tools": lambda connection: connection.send_tool_list_changed(),
    "resources": lambda connection: connection.send_resource_list_changed(),
    "prompts": lambda connection: connection.send_prompt_list_changed(),
}

logger = logging.getLogger(__name__)


class ChangeAnnouncer:
    """Hears of changes and passes them on. Several of one kind that come before it gets to tell are one."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        """Those of the handshake era."""
        self._pending: dict[tuple[Listed | None, str], None] = {}
        self._task: asyncio.Task[None] | None = None

    async def meet(self, ctx: Request, call_next: CallNext) -> HandlerResult:
        """Remember each connection of the handshake era; a middleware, since only requests lead to them."""
        if not is_modern(ctx):
            self.connections.add(connection_of(ctx))
        return await call_next(ctx)

    def hear(self, what: Listed | None, uri: str) -> None:
        """Notes a change of a list, or of what is at an address. It is announced soon, and nobody waits for it."""
        self._pending[what, uri] = None
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._tell())

    async def aclose(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _tell(self) -> None:
        await asyncio.sleep(0)  # what is said in one go is told in one go
        while self._pending:
            what, uri = next(iter(self._pending))
            del self._pending[what, uri]
            await self.bus.publish(ResourceUpdated(uri) if what is None else _EVENTS[what])
            told = [_send(connection, what, uri) for connection in tuple(self.connections)]
            await asyncio.gather(*told)


async def _send(connection: Connection, what: Listed | None, uri: str) -> None:
    if not connection.initialized.is_set():
        return
    watched: Any = connection.state.get("handrail.watched", ())
    if what is None and uri not in watched:
        return
    try:
        async with time_limit(_PATIENCE):
            await (connection.send_resource_updated(uri) if what is None else _SENDING[what](connection))
    except Exception:  # one broken connection must not keep the news from the others
        logger.warning("a client could not be told of a change", exc_info=True)
