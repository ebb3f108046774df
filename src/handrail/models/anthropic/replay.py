"""Blocks of a past reply as the service takes them back.

A search among deferred tools is a block of the model's reply and a block with what was found. Both go back as they
came. Without the search among the tools, or with tools that are gone, the service refuses them.
"""

from __future__ import annotations

from typing import Any

from handrail.core.model_request import ToolOffer
from handrail.models.anthropic.citations import citations_to_send
from handrail.models.anthropic.programs import CONTAINER
from handrail.models.anthropic.service_calls import USES
from handrail.models.identity_cache import cached_by_identity
from handrail.models.reply_layout import CoveredBlock
from handrail.models.supported_features import has_deferred_tools
from handrail.models.tool_names import NameMap

_SEARCHES = ("tool_search_tool_bm25", "tool_search_tool_regex")


@cached_by_identity
def searchable_names(tools: tuple[ToolOffer, ...], names: NameMap) -> frozenset[str]:
    """The names on the wire that a search may have found; none where there is no search."""
    return frozenset(names.to_wire(tool.name) for tool in tools) if has_deferred_tools(tools) else frozenset()


def block_to_send(piece: CoveredBlock, searchable: frozenset[str]) -> dict[str, Any] | None:
    """A block as it may be sent back; None if it may not."""
    block = piece.block
    match block:
        case {"type": kind} if kind == CONTAINER:
            return None  # it is a field of the request
        case {"type": "text", "citations": list(citations)}:
            text = {"type": "text", "text": piece.text}
            return {**text, "citations": citations_to_send(citations)} if piece.text.strip() else None
        case {"type": "server_tool_use", "name": name} if name in _SEARCHES:
            return block if searchable else None
        case {"type": "tool_search_tool_result", "content": {"tool_references": list(found)} as content}:
            left = [each for each in found if each.get("tool_name") in searchable]
            return {**block, "content": {**content, "tool_references": left}} if searchable else None
        case {"type": "tool_search_tool_result"}:
            return block if searchable else None
    return block


def drop_unfinished_calls(blocks: list[dict[str, Any]], missed: list[str]) -> list[dict[str, Any]]:
    """Drops the service's own calls that have no result; the API refuses them unless the reply goes on."""
    ended = {block.get("tool_use_id") for block in blocks}
    found = [block for block in blocks if block.get("type") not in USES or block.get("id") in ended]
    if len(found) < len(blocks):
        missed.append("the service did not finish a call of its own in an earlier reply; the call is left out")
    return found
