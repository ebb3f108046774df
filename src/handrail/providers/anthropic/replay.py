"""Blocks of a past reply as the service takes them back."""

from __future__ import annotations

from typing import Any

from handrail.providers.anthropic.citations import sent_back as citations_sent_back
from handrail.providers.anthropic.programs import CONTAINER
from handrail.providers.anthropic.search import sent_back as search_sent_back
from handrail.providers.anthropic.served import USES
from handrail.providers.layout import Piece


def replayed(piece: Piece, findable: frozenset[str]) -> dict[str, Any] | None:
    """A block as it may be sent back; None if it may not."""
    match piece.block:
        case {"type": kind} if kind == CONTAINER:
            return None  # it is a field of the request
        case {"type": "text", "citations": list(citations)}:
            text = {"type": "text", "text": piece.text}
            return {**text, "citations": citations_sent_back(citations)} if piece.text.strip() else None
    return search_sent_back(piece.block, findable)


def without_unfinished(blocks: list[dict[str, Any]], missed: list[str]) -> list[dict[str, Any]]:
    """Without calls of the service that have no result, which it refuses unless the reply goes on."""
    ended = {block.get("tool_use_id") for block in blocks}
    found = [block for block in blocks if block.get("type") not in USES or block.get("id") in ended]
    if len(found) < len(blocks):
        missed.append("the service did not finish a call of its own in an earlier reply; the call is left out")
    return found
