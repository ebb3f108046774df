"""All that the page can call, as one service of the bus.

It is for people at this node: a model that was let call capabilities cannot reach it, though the person it works for
could, and what only listens ends as soon as the node does.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from handrail.app.app import LOOK, Adjust, AppAdditions
from handrail.app.network_node import NetworkNode, open_node
from handrail.app.person import Person
from handrail.config.values import Config
from handrail.core.errors import BusError
from handrail.desk.cut_off_turns import taking_up_cut_off_turns
from handrail.desk.desk import Desk
from handrail.desk.questions import PendingQuestions
from handrail.desk.replicas import following_replicas
from handrail.desk.service.capabilities import AtMachine, Offered
from handrail.desk.service.conversations import ConversationCapabilities
from handrail.desk.service.views import ViewCapabilities
from handrail.http.request_guard import is_loopback
from handrail.node.bus.interfaces import Handler
from handrail.node.bus.request import RouteRequest

LISTENING = ("desk.watch", "desk.follow", "desk.trial", "desk.network")
"""The capabilities that last as long as somebody listens."""


class CapabilityGroup(Protocol):
    """Some of the desk's capabilities."""

    def capabilities(self) -> Iterator[Offered]: ...


class DeskService:
    """Conversations, and whatever views there are beside them."""

    def __init__(self, desk: Desk, at_machine: AtMachine, *views: CapabilityGroup) -> None:
        self._groups: tuple[CapabilityGroup, ...] = (ConversationCapabilities(desk, at_machine), *views)
        self._over = asyncio.Event()

    def capabilities(self) -> Iterator[Offered]:
        for group in self._groups:
            for descriptor, handler, predicate in group.capabilities():
                listens = descriptor.name in LISTENING
                yield descriptor, _for_people(self._until_over(handler) if listens else handler), predicate

    def end(self) -> None:
        """Let those go who only listen: the node ends, and they can come back to the next one."""
        self._over.set()

    def _until_over(self, handler: Handler) -> Handler:
        async def handle(request: RouteRequest) -> dict[str, Any]:
            tasks = (asyncio.ensure_future(handler(request)), asyncio.ensure_future(self._over.wait()))
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                return tasks[0].result() if tasks[0].done() else {"output": {}}
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        return handle


def _for_people(handler: Handler) -> Handler:
    async def handle(request: RouteRequest) -> dict[str, Any]:
        if request.context.depth:
            why = "the desk is for people; nothing that was called can call it"
            raise BusError("unauthorized", why, outcome="forbidden")
        return await handler(request)

    return handle


@asynccontextmanager
async def open_desk_node(
    config: Config,
    journal: Path,
    wanted: AppAdditions = AppAdditions(),
    person: Person | None = None,
    *,
    look: float | None = LOOK,
    adjust: Adjust = lambda config: config,
    environ: Mapping[str, str] = os.environ,
) -> AsyncIterator[NetworkNode]:
    """As `open_node`, with a page and what it calls. It may change the configuration, which says what runs on this
    machine, only where no other machine reaches it, and nobody without a token.

    Raises:
        UsageError: Something in the configuration is not available.
        McpError: An MCP server that is required is not available.
        JournalError: The journal cannot be opened.
    """
    person = person or Person()
    asking = PendingQuestions(person.by)
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(
            open_node(config, journal, wanted, person, ask=asking.knowing, look=look, adjust=adjust, environ=environ)
        )
        alone = is_loopback(config.node.host) and config.node.token_required
        desk = Desk(node.app, asking, by=person.by, settings_writable=alone, node_id=node.identity.node_id)
        await stack.enter_async_context(desk)
        await stack.enter_async_context(following_replicas(desk))
        await stack.enter_async_context(taking_up_cut_off_turns(desk))
        service = DeskService(desk, node.at_machine, ViewCapabilities(desk, node))
        node.bus.register_service(service)
        yield replace(node, page=True, on_drain=service.end)
