"""Blocks of an assistant's message that belong to Anthropic's own service: its searches, its code, its containers.

A client that spoke to that service before sends them back. Another model can do nothing with them: they are left out,
and a notice says so. What was compacted stays as the text that it was compacted to.
"""

from __future__ import annotations

from typing import Any

SERVICE_BLOCKS = frozenset(
    {
        "advisor_tool_result",
        "bash_code_execution_tool_result",
        "code_execution_tool_result",
        "container_upload",
        "fallback",
        "mcp_tool_listing",
        "mcp_tool_result",
        "mcp_tool_use",
        "server_tool_use",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "web_fetch_tool_result",
        "web_search_tool_result",
    }
)
_LEFT_OUT = {"type": "redacted_thinking"}
"""Takes the place of a block that is left out, so that the others keep theirs."""


def without_service_blocks(messages: Any) -> tuple[Any, tuple[str, ...]]:
    """The messages of a body without such blocks, and the places of those that are left out."""
    if not isinstance(messages, list):
        return messages, ()
    dropped: list[str] = []
    return [_without(message, f"messages[{at}]", dropped) for at, message in enumerate(messages)], tuple(dropped)


def _without(message: Any, place: str, dropped: list[str]) -> Any:
    match message:
        case {"role": "assistant", "content": list(blocks)}:
            kept = [_block(block, f"{place}.content[{at}]", dropped) for at, block in enumerate(blocks)]
            return {**message, "content": kept}
    return message


def _block(block: Any, place: str, dropped: list[str]) -> Any:
    match block:
        case {"type": "compaction", "content": str(summary)}:
            return {"type": "text", "text": summary}
        case {"type": "compaction"}:
            return _LEFT_OUT
        case {"type": str(kind)} if kind in SERVICE_BLOCKS:
            dropped.append(f"{place} ({kind})")
            return _LEFT_OUT
    return block
