"""Long lists, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import mcp_types as types
from mcp.shared.exceptions import MCPError

SIZE = 200
T = TypeVar("T")


def page_of(items: Sequence[T], params: types.PaginatedRequestParams | None) -> tuple[Sequence[T], str | None]:
    """The page that a cursor names, and the cursor of the next."""
    cursor = None if params is None else params.cursor
    start = _number(cursor)
    if start is None or (start and start >= len(items)):
        raise MCPError(types.INVALID_PARAMS, "Unknown cursor; begin again without one")
    end = start + SIZE
    return items[start:end], str(end) if end < len(items) else None


def _number(cursor: str | None) -> int | None:
    """Where a cursor points; None if it is none of ours."""
    if cursor is None:
        return 0
    return int(cursor) if cursor.isascii() and cursor.isdigit() and len(cursor) < 10 else None
