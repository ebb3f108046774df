"""The tools of a request to Chat Completions or Responses: the client's functions, and `mcp`, which names a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from handrail.core.model_request import ToolOffer
from handrail.node.gateways.field_rules import (
    FieldTable,
    check_fields,
    hint_field,
    honoured_fields,
    ignored_field,
    refused_field,
)
from handrail.node.gateways.openai.body import ChatFunctionDeclaration
from handrail.node.gateways.request import NamedMcpServer
from handrail.node.gateways.request_parsing import convert_field, refuse_field

_SIGN_IN = "the node signs in to its MCP servers by itself; leave it out"
_ANYTHING: dict[str, Any] = {"type": "object", "properties": {}}


class _McpToolFilter(Struct):
    tool_names: list[str] | None = None
    read_only: bool | None = None


class _McpTool(Struct):
    type: Literal["mcp"]
    server_label: str = ""
    server_url: str | None = None
    allowed_tools: list[str] | _McpToolFilter | None = None


MCP_TOOL: FieldTable = {
    **honoured_fields(_McpTool),
    "allowed_callers": refused_field("calls come from the model itself here; leave it out", ["direct"]),
    "authorization": refused_field(_SIGN_IN),
    "connector_id": refused_field("there are no connectors of OpenAI's here; name a server_url that the node uses"),
    "defer_loading": hint_field("the node decides which tools a model is shown at once", False),
    "headers": refused_field(_SIGN_IN, {}),
    "require_approval": refused_field("the node's rules say which calls wait for a person; leave it out", "never"),
    "server_description": ignored_field("the node knows its servers"),
    "tunnel_id": refused_field("there are no tunnels here; name a server_url that the node uses"),
}
ALLOWED_TOOLS: FieldTable = {
    **honoured_fields(_McpToolFilter),
    "read_only": refused_field("name the tools instead, as tool_names"),
}


def is_mcp_tool(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type") == "mcp"


def without_mcp_tools(tools: Any, function: Mapping[str, Any]) -> Any:
    """The tools with a harmless function in the place of each MCP server, so that the others keep their places.

    Raises:
        BusError: One is neither a function nor an MCP server.
    """
    if not isinstance(tools, list):
        return tools
    for at, tool in enumerate(tools):
        kind = tool.get("type", "function") if isinstance(tool, dict) else "function"
        if kind not in ("function", "mcp"):
            refuse_field(f"tools[{at}].type", f"{str(kind)[:40]!r} is not a tool of this node; declare a function")
    return [function if is_mcp_tool(tool) else tool for tool in tools]


def offers_of(functions: Sequence[ChatFunctionDeclaration], said: Any) -> tuple[ToolOffer, ...]:
    """The client's own functions, of those that `without_mcp_tools` made of what was said."""
    return tuple(
        ToolOffer(function.name, function.description or "", function.parameters or _ANYTHING)
        for function, tool in zip(functions, said or (), strict=True)
        if not is_mcp_tool(tool)
    )


def mcp_servers_of(tools: Any) -> tuple[tuple[NamedMcpServer, ...], tuple[str, ...]]:
    """The MCP servers that are named among the tools of a request, and the hints in them."""
    named = enumerate(tools) if isinstance(tools, list) else ()
    found = [_mcp_server(tool, f"tools[{at}]") for at, tool in named if is_mcp_tool(tool)]
    return tuple(server for server, _ in found), tuple(hint for _, hints in found for hint in hints)


def _mcp_server(tool: Mapping[str, Any], place: str) -> tuple[NamedMcpServer, tuple[str, ...]]:
    hints = check_fields(tool, MCP_TOOL, f"{place}.")
    read = convert_field(tool, _McpTool, place)
    if isinstance(tool.get("allowed_tools"), Mapping):
        check_fields(tool["allowed_tools"], ALLOWED_TOOLS, f"{place}.allowed_tools.")
    if not read.server_url:
        refuse_field(f"{place}.server_url", "name the address of an MCP server that the node uses")
    names = read.allowed_tools.tool_names if isinstance(read.allowed_tools, _McpToolFilter) else read.allowed_tools
    allowed = None if names is None else frozenset(names)
    return NamedMcpServer(place=f"{place}.server_url", url=read.server_url, allowed=allowed), hints
