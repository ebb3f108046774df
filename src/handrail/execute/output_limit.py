"""At most so many characters to the model: cut where a reader would, and say so."""

from __future__ import annotations

import unicodedata
from typing import Any

import msgspec

from handrail.core.calls import SpilledOutput
from handrail.core.errors import describe_exception
from handrail.core.ports import Spill

SMALLEST = 200
"""Characters: below this there would be no room for the note."""


async def bound_output(
    content: Any, limit: int, spill: Spill | None
) -> tuple[Any, SpilledOutput | None, tuple[str, ...]]:
    """The content, or as much of its text as fits with a note; where the whole is kept; a warning if it was cut."""
    if isinstance(content, str):
        if len(content) <= limit:
            return content, None, ()
        text = content
    else:
        encoded = msgspec.json.encode(content)
        if len(encoded) <= limit:
            return content, None, ()
        text = encoded.decode()
        if len(text) <= limit:
            return content, None, ()
    kept, warnings = await _kept(text, spill)
    shown, note = cut_text(text, limit, kept.id if kept else None)
    return shown + note, kept, (f"output cut: {len(shown):,} of {len(text):,} characters sent", *warnings)


async def _kept(text: str, spill: Spill | None) -> tuple[SpilledOutput | None, tuple[str, ...]]:
    if spill is None:
        return None, ()
    try:
        return SpilledOutput(await spill.put(text), len(text)), ()
    except OSError as error:  # the tool ran: a full disk must not take its result away
        return None, (f"the whole output could not be kept: {describe_exception(error)}",)


def cut_text(text: str, limit: int, id: str | None) -> tuple[str, str]:
    """The part that fits, and the note behind it. Together they are never longer than the limit."""
    room = limit - len(_note(len(text), len(text), id))
    if room < 0:
        return text[: cut_position(text, limit - 1)] if limit > 1 else "", "…" if limit > 0 else ""
    shown = text[: cut_position(text, room)]
    return shown, _note(len(shown), len(text), id)


def cut_position(text: str, most: int) -> int:
    """Where to cut: at a line end or a space if one is near, and never inside a character as readers see it."""
    if most >= len(text):
        return len(text)
    at = most
    while at > 0 and _joins(text[at - 1], text[at]):
        at -= 1
    nearest = max(text.rfind("\n", at - at // 10, at), text.rfind(" ", at - at // 10, at))
    found = nearest >= 0 and not _joins(text[nearest], text[nearest + 1])
    return nearest + 1 if found else at


def _joins(before: str, after: str) -> bool:
    return (
        unicodedata.category(after) in ("Mn", "Me", "Mc")
        or before == "\u200d"
        or after == "\u200d"
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # the colour of a skin
        or (before == "\r" and after == "\n")
    )


def _note(shown: int, total: int, id: str | None) -> str:
    rest = f"read on with read_output(id={id!r}, start={shown})" if id else "the rest was not kept"
    return f"\n[cut: {shown:,} of {total:,} characters; {rest}]"
