"""What the service did itself in a reply: calls of its own tools, with their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from handrail.core.events import ServiceCallMade
from handrail.models.reply_decoder import ServiceCalls

USES = ("server_tool_use", "mcp_tool_use")
_SEARCH = "tool_search_tool"
"""The prefix of the service's search among our own tools. Nobody needs to see such a call."""


def service_call_events(calls: ServiceCalls, block: Mapping[str, Any]) -> Iterable[ServiceCallMade]:
    """What a whole block means that is neither text, a thought nor a call of our tools."""
    match block:
        case {"type": str(kind), "id": str(id), "name": str(name)} if kind in USES and not name.startswith(_SEARCH):
            server = block.get("server_name")
            return calls.begin(id, f"{server}:{name}" if isinstance(server, str) else name, block.get("input"))
        case {"type": str(kind), "tool_use_id": str(id), **rest} if kind.endswith("_tool_result"):
            if not kind.startswith(_SEARCH):
                content, name = rest.get("content"), kind.removesuffix("_tool_result")
                return (calls.end(id, name, _readable(content), failed=_failed(rest, content)),)
    return ()


def _failed(block: Mapping[str, Any], content: Any) -> bool:
    kind = content.get("type") if isinstance(content, dict) else None
    return bool(block.get("is_error")) or (isinstance(kind, str) and kind.endswith("_error"))


def _readable(content: Any) -> Any:
    """The content without its encrypted fields; those go back in the original block."""
    match content:
        case list():
            return [_readable(each) for each in content]
        case dict():
            shown = {key: value for key, value in content.items() if not key.startswith("encrypted_")}
            return {key: _readable(value) if key == "content" else value for key, value in shown.items()}
    return content
