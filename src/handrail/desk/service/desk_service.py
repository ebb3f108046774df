"""All that the page can call, as one service of the bus.

It is for people at this node: a model that was let call capabilities cannot reach it, though the person it works for
could, and what only listens ends as soon as the node does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Protocol

from handrail.core.errors import BusError
from handrail.desk.desk import Desk
from handrail.desk.service.capabilities import AtMachine, Offered
from handrail.desk.service.conversations import ConversationCapabilities
from handrail.node.bus.interfaces import Handler
from handrail.node.bus.request import RouteRequest

LISTENING = ("desk.watch", "desk.follow", "desk.trial", "desk.network")
"""They last as long as somebody listens."""


class CapabilityGroup(Protocol):
    """Some of it."""

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
