"""Taking up what changes in the files of an app, for as long as somebody is served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from handrail.app.app import App
from handrail.app.person import Person
from handrail.config.values import Config

logger = logging.getLogger(__name__)


async def reload_on_change(
    app: App, person: Person, seconds: float, lasting: Callable[[Config], Any], told: str
) -> None:
    """Look at the files so often. `told` is said when something changes that is `lasting` until the next start."""
    began = lasting(app.config)
    while True:
        await asyncio.sleep(seconds)
        before = lasting(app.config)
        try:
            await app.refresh()
        except Exception:
            logger.exception("the files could not be looked at; it is tried again")
        if lasting(app.config) not in (began, before):
            person.tell(told)


async def cancel_and_wait(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
