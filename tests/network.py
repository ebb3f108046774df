"""The network of this machine, which tests share: some change its interfaces, and a browser that loads a page meanwhile
drops what it loads (ERR_NETWORK_CHANGED). So the ones wait for the others, in whichever process they run."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FILE = Path(tempfile.gettempdir()) / f"handrail-tests-{os.getuid()}.network"


@contextmanager
def left_alone() -> Iterator[None]:
    """Nobody changes the network meanwhile."""
    with _held(fcntl.LOCK_SH):
        yield


@contextmanager
def to_ourselves() -> Iterator[None]:
    """Nobody minds that it changes."""
    with _held(fcntl.LOCK_EX):
        yield


@contextmanager
def _held(how: int) -> Iterator[None]:
    handle = os.open(_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)
