"""OpenAI's tool `mcp`, which names an MCP server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from handrail.node.gateways.field_rules import (
    HONOURED,
    FieldTable,
    check_fields,
    hint_field,
    ignored_field,
    refused_field,
)
from handrail.node.gateways.request import NamedMcpServer
from handrail.node.gateways.request_parsing import convert_field, refuse_field

_SIGN_IN = "the node signs in to its MCP servers by itself; leave it out"

MCP_TOOL: FieldTable = {
    "allowed_callers": refused_field("calls come from the model itself here; leave it out", ["direct"]),
    "allowed_tools": HONOURED,
    "authorization": refused_field(_SIGN_IN),
    "connector_id": refused_field("there are no connectors of OpenAI's here; name a server_url that the node uses"),
    "defer_loading": hint_field("the node decides which tools a model is shown at once", False),
    "headers": refused_field(_SIGN_IN, {}),
    "require_approval": refused_field("the node's rules say which calls wait for a person; leave it out", "never"),
    "server_description": ignored_field("the node knows its servers"),
    "server_label": HONOURED,
    "server_url": HONOURED,
    "tunnel_id": refused_field("there are no tunnels here; name a server_url that the node uses"),
    "type": HONOURED,
}
ALLOWED_TOOLS: FieldTable = {
    "read_only": refused_field("name the tools instead, as tool_names"),
    "tool_names": HONOURED,
}


class _McpToolFilter(Struct):
    tool_names: list[str] | None = None
    read_only: bool | None = None


class _McpTool(Struct):
    type: Literal["mcp"]
    server_label: str = ""
    server_url: str | None = None
    allowed_tools: list[str] | _McpToolFilter | None = None


def mcp_server_of(tool: Mapping[str, Any], place: str) -> tuple[NamedMcpServer, tuple[str, ...]]:
    """The server that a tool `mcp` at a place of the request names, and the hints in it.

    Raises:
        BusError: It is of another form, or asks for what cannot be honoured.
    """
    hints = check_fields(tool, MCP_TOOL, f"{place}.")
    read = convert_field(tool, _McpTool, place)
    if isinstance(tool.get("allowed_tools"), Mapping):
        check_fields(tool["allowed_tools"], ALLOWED_TOOLS, f"{place}.allowed_tools.")
    if not read.server_url:
        refuse_field(f"{place}.server_url", "name the address of an MCP server that the node uses")
    names = read.allowed_tools.tool_names if isinstance(read.allowed_tools, _McpToolFilter) else read.allowed_tools
    allowed = None if names is None else frozenset(names)
    return NamedMcpServer(place=f"{place}.server_url", url=read.server_url, allowed=allowed), hints
