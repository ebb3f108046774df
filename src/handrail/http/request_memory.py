"""How many bytes of requests are held at once while they are read: a bound for all of them, known or not.

Nobody is asked who they are before their request is there, so that this is what keeps strangers from filling
the memory together, each within its own limit.
"""

from __future__ import annotations

SMALL = 64 * 1024
"""Bytes of each request that are not counted: while large ones fill the room, small ones still get in."""


class RequestMemory:
    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    @property
    def held(self) -> int:
        return self._held

    def place(self) -> ConnectionMemory:
        return ConnectionMemory(self)

    def _change(self, by: int) -> bool:
        if by > 0 and self._held + by > self._most:
            return False
        self._held += by
        return True


class ConnectionMemory:
    """What one connection holds of it."""

    def __init__(self, room: RequestMemory) -> None:
        self._room = room
        self._size = 0

    def hold(self, size: int) -> bool:
        """Hold so many bytes, more or fewer than before; False when there is no room for them."""
        size = max(0, size - SMALL)
        if not self._room._change(size - self._size):
            return False
        self._size = size
        return True

    def leave(self) -> None:
        self.hold(0)
