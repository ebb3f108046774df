"""One subject that is listened to, over whichever connection there is."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from handrail.core.timeouts import time_limit
from handrail.node.nats.direct_io import Heard, subscribe_directly

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.subscription import Subscription

    from handrail.node.nats.link import NatsLink


class SubjectListener:
    def __init__(self, link: NatsLink, subject: str, heard: Heard, queue: str) -> None:
        self._link = link
        self._subject = subject
        self._heard = heard
        self._queue = queue
        self._subscription: Subscription | None = None

    async def begin(self, client: Client) -> None:
        self._subscription = await subscribe_directly(client, self._subject, self._heard, self._queue)

    async def leave(self) -> None:
        """Hear no more on it, once what is on the way was heard; a server that says nothing is not waited for."""
        from nats.errors import Error

        self._link.listening.discard(self)
        if self._subscription is not None:
            with contextlib.suppress(Error, OSError):
                async with time_limit(self._link.pace.lease):
                    await self._subscription.drain()  # type: ignore[no-untyped-call]  # nats-py has no types here
