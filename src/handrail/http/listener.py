"""Opens a socket to serve on, or says why that is impossible."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from handrail.core.errors import UsageError
from handrail.http.request_guard import bracket_ipv6


@contextlib.contextmanager
def listening_socket(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host.strip("[]"), port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        why = why.partition(" (while attempting")[0]  # what follows says it once more
        raise UsageError(
            f"cannot listen at {bracket_ipv6(host)}:{port}: {why}; choose another port, or another address"
        ) from error
    # asyncio does so only for sockets that it makes itself; without it each answer waits for the client's ACK, 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with listener:
        yield listener
