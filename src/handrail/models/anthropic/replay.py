"""Blocks of a past reply as the service takes them back."""

from __future__ import annotations

from typing import Any

from handrail.models.anthropic.citations import citations_to_send as citations_sent_back
from handrail.models.anthropic.programs import CONTAINER
from handrail.models.anthropic.service_calls import USES
from handrail.models.anthropic.tool_search import search_block_to_send as search_sent_back
from handrail.models.reply_layout import CoveredBlock


def block_to_send(piece: CoveredBlock, findable: frozenset[str]) -> dict[str, Any] | None:
    """A block as it may be sent back; None if it may not."""
    match piece.block:
        case {"type": kind} if kind == CONTAINER:
            return None  # it is a field of the request
        case {"type": "text", "citations": list(citations)}:
            text = {"type": "text", "text": piece.text}
            return {**text, "citations": citations_sent_back(citations)} if piece.text.strip() else None
    return search_sent_back(piece.block, findable)


def drop_unfinished_calls(blocks: list[dict[str, Any]], missed: list[str]) -> list[dict[str, Any]]:
    """Without calls of the service that have no result, which it refuses unless the reply goes on."""
    ended = {block.get("tool_use_id") for block in blocks}
    found = [block for block in blocks if block.get("type") not in USES or block.get("id") in ended]
    if len(found) < len(blocks):
        missed.append("the service did not finish a call of its own in an earlier reply; the call is left out")
    return found
