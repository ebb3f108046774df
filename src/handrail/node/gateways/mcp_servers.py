"""MCP servers that a client names in its request.

A node connects to no address that a client sends. A server that the node's configuration has, and that was approved,
is in use already: naming it chooses among its tools. Any other is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from handrail.core.errors import BusError
from handrail.node.gateways.request import NamedMcpServer
from handrail.node.gateways.request_parsing import refuse_field

McpServers = Callable[[], Mapping[str, Mapping[str, str]]]
"""The MCP servers in use, by address: the name that each tool has at its server, and the one that it has here."""
_PORTS = {"http": 80, "https": 443}


class ChosenTools(Struct, frozen=True):
    """What the client chose from the servers that it named, by the names of the node's tools."""

    wanted: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()


def choose_server_tools(named: Iterable[NamedMcpServer], servers: Mapping[str, Mapping[str, str]]) -> ChosenTools:
    """
    Raises:
        BusError: The node does not use a server at that address, or the server has no tool of that name.
    """
    known = {_normal(url): tools for url, tools in servers.items()}
    wanted: set[str] = set()
    everything: set[str] = set()
    for server in named:
        tools = known.get(_normal(server.url))
        if tools is None:
            refuse_field(
                server.place,
                "this node does not use an MCP server at this address, and connects to none that a request names;"
                " whoever runs the node can add it under [mcp] and approve it with `handrail mcp approve`",
            )
        strange = sorted(((server.allowed or frozenset()) | server.left_out) - set(tools))
        if strange:
            refuse_field(server.place, f"the MCP server there offers no tool {strange[0][:60]!r} to this node")
        everything |= set(tools.values())
        wanted |= {
            name
            for remote, name in tools.items()
            if (server.allowed is None or remote in server.allowed) and remote not in server.left_out
        }
    return ChosenTools(frozenset(wanted), frozenset(everything - wanted))


def check_callable(named: Iterable[NamedMcpServer], chosen: ChosenTools, may_call: frozenset[str]) -> None:
    """
    Raises:
        BusError: Tools were chosen, and the token covers none of them.
    """
    if chosen.wanted and not chosen.wanted & may_call:
        place = next(iter(named)).place
        words = f"{place}: none of the tools of this MCP server may be called here with this token"
        raise BusError("token_scope_insufficient", words, outcome="forbidden", param=place)


def _normal(url: str) -> Any:
    """What is the same for two spellings of one address."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return url
    return parts.scheme, parts.hostname, port, parts.path.rstrip("/"), parts.query
