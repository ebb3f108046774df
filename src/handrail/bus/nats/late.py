"""A call that was given up before anybody said that they have it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from handrail.bus.nats.link import Arrived, Link, read
from handrail.bus.nats.wire import Accepted, Cancel


def cancel_when_taken(link: Link, subject: Callable[[str], str], ref: str, seconds: float) -> None:
    """Whoever says so yet, in that time, is told that nobody waits. `subject` is where to tell a worker."""

    def late(arrived: Arrived) -> None:
        message = read(arrived) if isinstance(arrived, bytes) else None
        if isinstance(message, Accepted):
            link.forget(ref)
            link.later(link.send(subject(message.worker), Cancel(ref=ref)))

    link.expect(ref, late)
    asyncio.get_running_loop().call_later(seconds, link.forget, ref)
