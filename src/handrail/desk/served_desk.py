"""A node of the network with a desk on its bus: what `handrail serve` serves to the page, beside everything else."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from handrail.app.app import Adjust, AppAdditions
from handrail.app.mcp_serving import LOOK
from handrail.app.network_node import NetworkNode, open_node
from handrail.app.person import Person
from handrail.config.values import Config
from handrail.desk.desk import Desk
from handrail.desk.questions import PendingQuestions
from handrail.desk.service.desk_service import DeskService
from handrail.desk.service.views import ViewCapabilities
from handrail.http.request_guard import is_loopback


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
        UsageError: Something in the configuration cannot be had.
        McpError: An MCP server that is required cannot be had.
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
        service = DeskService(desk, node.at_machine, ViewCapabilities(desk, node))
        node.bus.register_service(service)
        yield replace(node, page=True, on_drain=service.end)
