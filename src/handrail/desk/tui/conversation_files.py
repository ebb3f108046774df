"""The pictures and files of a conversation, for a person who wants to save one."""

from __future__ import annotations

from handrail.desk.desk import Desk
from handrail.desk.tui.messages import WHO, part_words
from handrail.desk.values import ConversationItem

_MOST = 100
_PIECE = 100


async def list_conversation_files(desk: Desk, talk: str, total: int) -> list[tuple[str, str]]:
    """A key, `message.part`, and the words for each file whose bytes are here; the last first, at most a hundred."""
    found: list[tuple[str, str]] = []
    before = total
    while before > 0 and len(found) < _MOST:
        items = await desk.items(talk, before, _PIECE)
        if not items:
            break
        for item in reversed(items):
            found += _files(item)
        before = items[0].index
    return found[:_MOST]


def _files(item: ConversationItem) -> list[tuple[str, str]]:
    who = WHO.get(item.kind, item.name or item.kind)
    return [(f"{item.index}.{at}", f"{part_words(part)} · {who}") for at, part in enumerate(item.parts) if not part.url]
