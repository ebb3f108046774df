"""What a stream is made of: numbered frames, of which exactly one, the last, is `done` or `error`."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

DONE = "done"
ERROR = "error"
TERMINAL = frozenset({DONE, ERROR})
RESULT = "result"
"""The one frame before `done` of a capability that does not stream: its output."""


class StreamFrame(Struct, frozen=True):
    """One piece of the answer to a call on the bus. The last piece says how the call ended."""

    event: str
    data: dict[str, Any] = field(default_factory=dict)
    seq: int = 0
    """Counts up by one in each stream, from 1."""

    @property
    def is_last(self) -> bool:
        return self.event in TERMINAL
