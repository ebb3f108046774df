"""Where a conversation can be taken back to: wherever a person spoke."""

from __future__ import annotations

from handrail.desk.desk import Desk
from handrail.desk.tui.formatting import line

_MOST = 100
_PIECE = 100


async def list_undo_points(desk: Desk, talk: str, total: int) -> list[tuple[str, str]]:
    """The index of each thing a person said, and its first words; the last first, and at most a hundred."""
    found: list[tuple[str, str]] = []
    before = total
    while before > 0 and len(found) < _MOST:
        items = await desk.items(talk, before, _PIECE)
        if not items:
            break
        said = [each for each in reversed(items) if each.kind == "user"]
        found += [(str(each.index), line(each.text.text if each.text else "", 60) or "(a file)") for each in said]
        before = items[0].index
    return found[:_MOST]
