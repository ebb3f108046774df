"""The service's own search among deferred tools: how it is asked for, and what may be sent back of it.

A search is a block of the model's reply and a block with what was found. Both go back
as they came. Without the search among the tools, or with tools that are gone, the
service refuses them.
"""

from __future__ import annotations

from typing import Any

from handrail.core.model_request import ToolOffer
from handrail.models.identity_cache import cached_by_identity
from handrail.models.supported_features import has_deferred_tools
from handrail.models.tool_names import NameMap

SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
_SEARCHES = ("tool_search_tool_bm25", "tool_search_tool_regex")


@cached_by_identity
def findable(tools: tuple[ToolOffer, ...], names: NameMap) -> frozenset[str]:
    """The names on the wire that a search may have found; none where there is no search."""
    return frozenset(names.to_wire(tool.name) for tool in tools) if has_deferred_tools(tools) else frozenset()


def search_block_to_send(block: dict[str, Any], known: frozenset[str]) -> dict[str, Any] | None:
    """A block of a past reply as it may be sent back; None if it may not."""
    match block:
        case {"type": "server_tool_use", "name": name} if name in _SEARCHES:
            return block if known else None
        case {"type": "tool_search_tool_result", "content": {"tool_references": list(found)} as content}:
            left = [each for each in found if each.get("tool_name") in known]
            return {**block, "content": {**content, "tool_references": left}} if known else None
        case {"type": "tool_search_tool_result"}:
            return block if known else None
    return block
