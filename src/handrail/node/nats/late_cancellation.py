"""A call that was given up before anybody said that they have it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from handrail.node.nats.link import Arrived, NatsLink, read_worker_message
from handrail.node.nats.messages import NatsAccepted, NatsCancel


def cancel_when_taken(link: NatsLink, subject: Callable[[str], str], ref: str, seconds: float) -> None:
    """Whoever says so yet, in that time, is told that nobody waits. `subject` is where to tell a worker."""

    def late(arrived: Arrived) -> None:
        message = read_worker_message(arrived) if isinstance(arrived, bytes) else None
        if isinstance(message, NatsAccepted):
            link.forget(ref)
            link.later(link.send(subject(message.worker), NatsCancel(ref=ref)))

    link.expect(ref, late)
    asyncio.get_running_loop().call_later(seconds, link.forget, ref)
