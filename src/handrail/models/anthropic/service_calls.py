"""What the service did itself in a reply: calls of its own tools, with their results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from handrail.core.events import ServiceCallMade
from handrail.core.messages import ServiceCall

USES = ("server_tool_use", "mcp_tool_use")
_SEARCH = "tool_search_tool"
"""How the names of the service's search among our own tools begin. It is no call that anybody needs to see."""


class AnthropicServiceCalls:
    """One per reply. Pairs each call with the block that has its result."""

    def __init__(self) -> None:
        self._open: dict[str, ServiceCall] = {}

    def take(self, block: Mapping[str, Any]) -> Iterator[ServiceCallMade]:
        """A whole block that is neither text, a thought nor a call of our tools."""
        match block:
            case {"type": str(kind), "id": str(id), "name": str(name)} if kind in USES and not name.startswith(_SEARCH):
                server = block.get("server_name")
                shown = f"{server}:{name}" if isinstance(server, str) else name
                self._open[id] = ServiceCall(id=id, name=shown, arguments=block.get("input"))
            case {"type": str(kind), "tool_use_id": str(id), **rest} if kind.endswith("_tool_result"):
                if kind.startswith(_SEARCH):
                    return
                # Without its beginning, the call is one of an earlier reply that goes on in this one.
                made = self._open.pop(id, None) or ServiceCall(id=id, name=kind.removesuffix("_tool_result"))
                content = rest.get("content")
                yield ServiceCallMade(call=replace(made, result=_readable(content), failed=_failed(rest, content)))

    def end(self) -> Iterator[ServiceCallMade]:
        """Calls that have no result yet."""
        for call in self._open.values():
            yield ServiceCallMade(call=call)
        self._open.clear()


def _failed(block: Mapping[str, Any], content: Any) -> bool:
    kind = content.get("type") if isinstance(content, dict) else None
    return bool(block.get("is_error")) or (isinstance(kind, str) and kind.endswith("_error"))


def _readable(content: Any) -> Any:
    """Without what is sealed for the service: that is in the block that goes back."""
    match content:
        case list():
            return [_readable(each) for each in content]
        case dict():
            shown = {key: value for key, value in content.items() if not key.startswith("encrypted_")}
            return {key: _readable(value) if key == "content" else value for key, value in shown.items()}
    return content
