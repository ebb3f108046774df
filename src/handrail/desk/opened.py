"""A desk in this process, for the terminal program: an app with somebody at it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from handrail.app.keeping import end, keep_up
from handrail.app.opened import Adjust, Wanted, open_app
from handrail.app.person import Person
from handrail.app.serving import LOOK
from handrail.config.values import Config
from handrail.desk.asking import Asking
from handrail.desk.desk import Desk


@asynccontextmanager
async def open_desk(
    config: Config,
    journal: Path,
    wanted: Wanted = Wanted(),
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
    asking = Asking(person.by)
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(open_app(config, journal, wanted, asking.knowing, person, adjust=adjust))
        if look is not None:
            watching = asyncio.create_task(keep_up(app, person, look, lambda config: None, ""))
            stack.push_async_callback(end, watching)
        yield await stack.enter_async_context(Desk(app, asking, by=person.by, settings_writable=True))
