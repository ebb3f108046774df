"""A desk in this process, for the terminal program: an app with somebody at it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from handrail.app.app import Adjust, AppAdditions, open_app
from handrail.app.config_reloading import cancel_and_wait, reload_on_change
from handrail.app.mcp_serving import LOOK
from handrail.app.person import Person
from handrail.config.values import Config
from handrail.desk.desk import Desk
from handrail.desk.questions import PendingQuestions


@asynccontextmanager
async def open_desk(
    config: Config,
    journal: Path,
    wanted: AppAdditions = AppAdditions(),
    person: Person | None = None,
    *,
    look: float | None = LOOK,
    adjust: Adjust = lambda config: config,
) -> AsyncIterator[Desk]:
    """As `open_app`, with conversations. Every so many seconds of `look` the files are looked at; None is never.

    Raises:
        UsageError: Something in the configuration cannot be had.
        McpError: An MCP server that is required cannot be had.
        JournalError: The journal cannot be opened.
    """
    person = person or Person()
    asking = PendingQuestions(person.by)
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(open_app(config, journal, wanted, asking.knowing, person, adjust=adjust))
        if look is not None:
            watching = asyncio.create_task(reload_on_change(app, person, look, lambda config: None, ""))
            stack.push_async_callback(cancel_and_wait, watching)
        yield await stack.enter_async_context(Desk(app, asking, by=person.by, settings_writable=True))
