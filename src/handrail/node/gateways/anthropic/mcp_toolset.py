"""Anthropic's `mcp_servers`, and the tools `mcp_toolset` that choose among what those servers have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from handrail.node.gateways.anthropic.body import MessagesMcpServer, MessagesMcpToolConfiguration
from handrail.node.gateways.field_rules import (
    CACHING,
    HONOURED,
    FieldTable,
    check_fields,
    hint_field,
    honoured_fields,
    ignored_field,
    refused_field,
)
from handrail.node.gateways.request import NamedMcpServer
from handrail.node.gateways.request_parsing import convert_field, refuse_field


class _ToolsetConfig(Struct):
    enabled: bool | None = None


class _Toolset(Struct):
    mcp_server_name: str
    configs: dict[str, _ToolsetConfig] | None = None
    default_config: _ToolsetConfig | None = None


MCP_SERVER: FieldTable = {
    **honoured_fields(MessagesMcpServer),
    "authorization_token": refused_field("the node signs in to its MCP servers by itself; leave it out"),
}
TOOL_CONFIGURATION: FieldTable = honoured_fields(MessagesMcpToolConfiguration)
TOOLSET: FieldTable = {
    **honoured_fields(_Toolset),
    "cache_control": ignored_field(CACHING),
    "tools": refused_field("the node lists the tools of its servers by itself; leave it out"),
    "type": HONOURED,
}
TOOLSET_CONFIG: FieldTable = {
    **honoured_fields(_ToolsetConfig),
    "defer_loading": hint_field("the node decides which tools a model is shown at once", False),
}


def is_toolset(tool: Any) -> bool:
    return isinstance(tool, Mapping) and tool.get("type") == "mcp_toolset"


def named_servers(
    servers: list[MessagesMcpServer], given: Mapping[str, Any]
) -> tuple[tuple[NamedMcpServer, ...], tuple[str, ...]]:
    """The servers of a request with what its toolsets choose, and the hints in either.

    Raises:
        BusError: Something asks for what cannot be honoured, or a toolset is for a server that is not named.
    """
    hints: tuple[str, ...] = ()
    found: dict[str, NamedMcpServer] = {}
    for at, server in enumerate(servers):
        place = f"mcp_servers[{at}]"
        raw = given["mcp_servers"][at]
        check_fields(raw, MCP_SERVER, f"{place}.")
        check_fields(raw.get("tool_configuration") or {}, TOOL_CONFIGURATION, f"{place}.tool_configuration.")
        if server.name in found:
            refuse_field(f"{place}.name", f"{server.name[:60]!r} is there twice")
        found[server.name] = _configured(server, f"{place}.url")
    chosen: set[str] = set()
    for at, tool in enumerate(given.get("tools") or ()):
        if is_toolset(tool):
            place = f"tools[{at}]"
            toolset, more = _toolset(tool, place)
            name = toolset.mcp_server_name
            if name not in found or name in chosen:
                twice = "has a toolset already" if name in chosen else "is not among mcp_servers"
                refuse_field(f"{place}.mcp_server_name", f"{name[:60]!r} {twice}")
            chosen.add(name)
            found[name] = _narrowed(found[name], toolset)
            hints += more
    return tuple(found.values()), hints


def _configured(server: MessagesMcpServer, place: str) -> NamedMcpServer:
    configuration = server.tool_configuration or MessagesMcpToolConfiguration()
    allowed = configuration.allowed_tools
    if configuration.enabled is False:
        allowed = []
    return NamedMcpServer(place=place, url=server.url, allowed=None if allowed is None else frozenset(allowed))


def _toolset(tool: Mapping[str, Any], place: str) -> tuple[_Toolset, tuple[str, ...]]:
    hints = check_fields(tool, TOOLSET, f"{place}.")
    read = convert_field({key: value for key, value in tool.items() if key != "type"}, _Toolset, place)
    hints += check_fields(tool.get("default_config") or {}, TOOLSET_CONFIG, f"{place}.default_config.")
    for name, config in (tool.get("configs") or {}).items():
        hints += check_fields(config, TOOLSET_CONFIG, f"{place}.configs.{name[:60]}.")
    return read, hints


def _narrowed(server: NamedMcpServer, toolset: _Toolset) -> NamedMcpServer:
    configs = toolset.configs or {}
    on = frozenset(name for name, config in configs.items() if config.enabled)
    off = frozenset(name for name, config in configs.items() if config.enabled is False)
    by_default = toolset.default_config is None or toolset.default_config.enabled is not False
    allowed = server.allowed
    if not by_default:
        allowed = on if allowed is None else allowed & on
    return NamedMcpServer(place=server.place, url=server.url, allowed=allowed, left_out=off)
