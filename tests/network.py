"""The network of this machine, which tests share: its ports, and its interfaces, which some tests change. A browser
that loads a page meanwhile drops what it loads (ERR_NETWORK_CHANGED). So the ones wait for the others, in whichever
process they run."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

_FILE = Path(tempfile.gettempdir()) / f"handrail-tests-{os.getuid()}.network"
_DOOR = _FILE.with_suffix(".door")
"""Whoever comes passes it one by one, so that those who change nothing and come all the time keep nobody out."""


def free_port() -> int:
    """One below those that the kernel gives away by itself: nobody else gets it before it is used, or in between."""
    below = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = secrets.choice(range(10_000, below)) if below > 20_000 else 0
        with suppress(OSError), socket.create_server(("127.0.0.1", port)) as listener:
            return int(listener.getsockname()[1])


@contextmanager
def left_alone() -> Iterator[None]:
    """Nobody changes the network meanwhile."""
    with ExitStack() as held:
        with _held(_DOOR, fcntl.LOCK_EX):
            held.enter_context(_held(_FILE, fcntl.LOCK_SH))
        yield


@contextmanager
def to_ourselves() -> Iterator[None]:
    """Nobody minds that it changes."""
    with _held(_DOOR, fcntl.LOCK_EX), _held(_FILE, fcntl.LOCK_EX):
        yield


@contextmanager
def _held(file: Path, how: int) -> Iterator[None]:
    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)
