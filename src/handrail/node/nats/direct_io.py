"""Messages without detours: what nats-py puts off to tasks of its own, done at once.

It hands each message to a task of its subscription, and writes in a task of the connection: two turns of the event
loop for each message. To spare them takes names that it may change. Where one is not as it was, its usual way is taken,
and nothing is lost but time; `tests/node/nats/test_direct_io.py` tells when that is so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

logger = logging.getLogger(__name__)

Heard = Callable[["Msg"], None]
"""Takes a message. It only reads it and hands it on."""


class _Straight(asyncio.Queue["Msg"]):
    """A queue in which nothing ever waits."""

    def __init__(self, heard: Heard) -> None:
        super().__init__()
        self._heard = heard

    def put_nowait(self, item: Msg) -> None:
        try:
            self._heard(item)
        except Exception:  # here it would end the connection, and with it every other call
            logger.exception("a message over NATS could not be taken")


async def subscribe_directly(client: Client, subject: str, heard: Heard, queue: str = "") -> Any:
    """A subscription whose messages are heard as they are read."""

    async def later(message: Msg) -> None:
        heard(message)

    # Without a limit: it counts what waits in its own queue, and nothing does.
    found = await client.subscribe(subject, queue=queue, cb=later, pending_bytes_limit=0)
    if isinstance(getattr(found, "_pending_queue", None), asyncio.Queue):
        found._pending_queue = _Straight(heard)
    return found


def publish_directly(client: Any, subject: str, payload: bytes, reply: str = "") -> bool:
    """Send a message at once. False: something waits to be written before it, and it has to go the usual way."""
    try:
        transport = client._transport
        if client._pending or transport._io_writer.transport.get_write_buffer_size():
            return False
        transport.write(b"PUB %b %d\r\n%b\r\n" % (_subjects(subject, reply), len(payload), payload))
    except (AttributeError, ValueError):
        return False
    return True


def _subjects(subject: str, reply: str) -> bytes:
    """Raises:
    ValueError: One of them would be read as something else than a subject.
    """
    words = f"{subject} {reply}" if reply else subject
    if not words.isprintable() or words.count(" ") != bool(reply) or not subject:
        raise ValueError(words)
    return words.encode()
