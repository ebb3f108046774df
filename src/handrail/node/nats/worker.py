"""A node that serves its bus over NATS until it is told to stop, and then ends what it began."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from handrail.node.bus.interfaces import Bus
from handrail.node.nats.call_server import CallAuthenticator
from handrail.node.nats.door import NatsDoor
from handrail.node.nats.link import NatsLink
from handrail.node.nats.pace import NatsPace

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def serve_worker(
    bus: Bus,
    url: str | Sequence[str],
    *,
    community: str,
    authenticator: CallAuthenticator | None = None,
    pace: NatsPace = NatsPace(),
    options: Mapping[str, Any] | None = None,
    most: int = 1_000,
    drain: float = 10.0,
    ready: Callable[[NatsDoor], None] | None = None,
) -> None:
    """Serve until SIGTERM, Ctrl-C or cancellation; then take nothing new, and let calls end for `drain` seconds.

    `ready` is told once the first call could come. `options` are those of `nats.connect`.

    Raises:
        BusError: No NATS server was reached (`partition`).
    """
    stop = asyncio.Event()
    async with NatsLink(url, name=f"handrail {bus.node_id}", pace=pace, options=options) as link:
        door = NatsDoor(bus, link, community=community, authenticator=authenticator, most=most)
        with _stopping(stop):
            await door.start()
            try:
                if ready is not None:
                    ready(door)
                await stop.wait()
            finally:
                await door.aclose(drain)


@contextlib.contextmanager
def _stopping(stop: asyncio.Event) -> Iterator[None]:
    """Signals set the event. Only the main thread hears signals; elsewhere cancellation is the way."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for each in _SIGNALS:
        loop.add_signal_handler(each, stop.set)
    try:
        yield
    finally:
        for each in _SIGNALS:
            loop.remove_signal_handler(each)
