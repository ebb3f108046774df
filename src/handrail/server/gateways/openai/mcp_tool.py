"""OpenAI's tool `mcp`, which names an MCP server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from handrail.server.gateways.asked import NamedServer
from handrail.server.gateways.fields import HONOURED, FieldTable, check_fields, hint, ignored, refused
from handrail.server.gateways.reading import bad, converted

_SIGN_IN = "the node signs in to its MCP servers by itself; leave it out"

MCP_TOOL: FieldTable = {
    "allowed_callers": refused("calls come from the model itself here; leave it out", ["direct"]),
    "allowed_tools": HONOURED,
    "authorization": refused(_SIGN_IN),
    "connector_id": refused("there are no connectors of OpenAI's here; name a server_url that the node uses"),
    "defer_loading": hint("the node decides which tools a model is shown at once", False),
    "headers": refused(_SIGN_IN, {}),
    "require_approval": refused("the node's rules say which calls wait for a person; leave it out", "never"),
    "server_description": ignored("the node knows its servers"),
    "server_label": HONOURED,
    "server_url": HONOURED,
    "tunnel_id": refused("there are no tunnels here; name a server_url that the node uses"),
    "type": HONOURED,
}
ALLOWED_TOOLS: FieldTable = {
    "read_only": refused("name the tools instead, as tool_names"),
    "tool_names": HONOURED,
}


class _Filter(Struct):
    tool_names: list[str] | None = None
    read_only: bool | None = None


class _Tool(Struct):
    type: Literal["mcp"]
    server_label: str = ""
    server_url: str | None = None
    allowed_tools: list[str] | _Filter | None = None


def mcp_server_of(tool: Mapping[str, Any], place: str) -> tuple[NamedServer, tuple[str, ...]]:
    """The server that a tool `mcp` at a place of the request names, and the hints in it.

    Raises:
        BusError: It is of another form, or asks for what cannot be honoured.
    """
    hints = check_fields(tool, MCP_TOOL, f"{place}.")
    read = converted(tool, _Tool, place)
    if isinstance(tool.get("allowed_tools"), Mapping):
        check_fields(tool["allowed_tools"], ALLOWED_TOOLS, f"{place}.allowed_tools.")
    if not read.server_url:
        bad(f"{place}.server_url", "name the address of an MCP server that the node uses")
    names = read.allowed_tools.tool_names if isinstance(read.allowed_tools, _Filter) else read.allowed_tools
    allowed = None if names is None else frozenset(names)
    return NamedServer(place=f"{place}.server_url", url=read.server_url, allowed=allowed), hints
