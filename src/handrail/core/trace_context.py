"""W3C trace context: how a call says which larger piece of work it is a part of."""

from __future__ import annotations

import re
from typing import Any

_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[!-~]{1,64})?")


def traceparent(said: Any) -> str | None:
    """What somebody outside sent as a `traceparent`, if it is one. Anything else begins a trace of its own."""
    return said if isinstance(said, str) and _PARENT.fullmatch(said) else None


def trace_id(parent: str | None) -> str | None:
    """The id that everything of one trace has in common."""
    return None if parent is None else parent[3:35]
