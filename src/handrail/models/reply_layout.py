"""The order in which a reply came: its text, its calls, and what only its provider understands.

A message keeps a reply's text as one string and its calls as one list. A provider
that signs its thoughts wants them back at the place where they stood: so each
artefact remembers how much text and how many calls came before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from handrail.core.messages import Artefact, InvocationMessage
from handrail.models.history import AssistantTurn


class PlacedBlock(Struct, frozen=True, omit_defaults=True):
    """A piece of a reply exactly as its provider wrote it, and its place."""

    block: dict[str, Any]
    chars: int = 0
    """Characters of the reply's text before it."""
    calls: int = 0
    """Calls before it."""
    covers: int = 0
    """Characters of the reply's text that belong to it."""
    alone: bool = False
    """Whether the service wants it back even if the reply has neither text nor calls, as a generated picture."""


class ReplyLayout:
    """Notes places while a reply is read."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._placed: list[PlacedBlock] = []
        self._chars = 0
        self._calls = 0

    def said(self, text: str) -> None:
        self._chars += len(text)

    def called(self) -> None:
        self._calls += 1

    def place(self, block: dict[str, Any], covers: int = 0, *, alone: bool = False) -> None:
        """Note a block; the text that belongs to it has been said."""
        self._placed.append(PlacedBlock(block, self._chars - covers, self._calls, covers, alone))

    @property
    def chars(self) -> int:
        """Characters of the reply's text so far."""
        return self._chars

    @property
    def calls(self) -> int:
        return self._calls

    @property
    def artefacts(self) -> tuple[Artefact, ...]:
        return tuple(Artefact(self._provider, msgspec.to_builtins(placed)) for placed in self._placed)


class CoveredBlock(Struct, frozen=True):
    """A block of an artefact with the text that belongs to it."""

    block: dict[str, Any]
    text: str


ReplyPiece = str | InvocationMessage | CoveredBlock


def reply_pieces(turn: AssistantTurn) -> Iterator[ReplyPiece]:
    """A turn's text, calls and blocks in the order in which they came. No text is empty."""
    said = done = 0
    for artefact in turn.artefacts:
        placed = msgspec.convert(artefact.data, PlacedBlock)
        start, end = max(said, placed.chars), max(said, placed.chars + placed.covers)
        if before := turn.text[said:start]:
            yield before
        yield from turn.calls[done : placed.calls]
        yield CoveredBlock(placed.block, turn.text[start:end])
        said, done = end, max(done, placed.calls)
    if rest := turn.text[said:]:
        yield rest
    yield from turn.calls[done:]
