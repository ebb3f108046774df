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
    if not isinstance(messages, list) or not any(map(_has_some, messages)):
        return messages, ()
    dropped: list[str] = []
    found = [
        {**message, "content": _blocks(message["content"], f"messages[{at}].content", dropped)}
        if _has_some(message)
        else message
        for at, message in enumerate(messages)
    ]
    return found, tuple(dropped)


def _has_some(message: Any) -> bool:
    match message:
        case {"role": "assistant", "content": [*blocks]}:
            return any(_kind(block) == "compaction" or _kind(block) in SERVICE_BLOCKS for block in blocks)
    return False


def _blocks(blocks: list[Any], place: str, dropped: list[str]) -> list[Any]:
    found: list[Any] = []
    for at, block in enumerate(blocks):
        kind = _kind(block)
        if kind == "compaction":
            summary = block.get("content")
            found.append({"type": "text", "text": summary} if isinstance(summary, str) else _LEFT_OUT)
        elif kind in SERVICE_BLOCKS:
            dropped.append(f"{place}[{at}] ({kind})")
            found.append(_LEFT_OUT)
        else:
            found.append(block)
    return found


def _kind(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""
