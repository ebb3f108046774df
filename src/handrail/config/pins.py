"""Tools of approved MCP servers that are held back, because they are not as they were approved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from handrail.config.approvals import Approvals, approval_binding, described_tool
from handrail.execute.confirm import describe_definition_changes
from handrail.mcp.values import Endpoint, RemoteTool


class FilePins:
    """Holds back what is not as it was approved. It implements the client's `Pins` for the servers of one file."""

    def __init__(
        self,
        approvals: Approvals,
        config: Path,
        endpoints: Mapping[str, Endpoint],
        *,
        allow_new: frozenset[str] = frozenset(),
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._approvals = approvals
        self._config = config
        self._endpoints = endpoints
        self._allow_new = allow_new
        """Servers whose new tools need no look."""
        self._tell = tell

    def held(self, server: str, tools: Mapping[str, RemoteTool]) -> Mapping[str, str]:
        """Tools that may not be offered, and why. The first time, all are taken as they are, and that is told."""
        endpoint = self._endpoints[server]
        known = self._approvals.of(self._config, server)
        if known is None or known.tools is None:
            if self._approvals.meet(self._config, server, endpoint, tools):
                self._tell(
                    f"MCP server {server!r} is used for the first time: its {len(tools)} tools are taken as they are"
                    " now; what it changes later is held back until you have looked"
                )
                return {}
            known = self._approvals.of(self._config, server)  # somebody else was quicker, or took the word back
        if known is None or known.tools is None or known.binds != approval_binding(endpoint):
            why = f"the word on the server was taken back, or is for another; handrail mcp approve {server}"
            return dict.fromkeys(tools, why)
        return differences(known.tools, tools, server, allow_new=server in self._allow_new)


def differences(
    before: Mapping[str, dict[str, Any]], tools: Mapping[str, RemoteTool], server: str, *, allow_new: bool = False
) -> dict[str, str]:
    """The tools that are not what they were, each with what is different in words."""
    how = f"look and accept with: handrail mcp approve {server}"
    found: dict[str, str] = {}
    for name, tool in tools.items():
        now = described_tool(tool)
        if name not in before:
            if not allow_new:
                found[name] = f"new since you approved the server; {how}"
        elif before[name] != now:
            found[name] = (
                f"changed since you approved it ({'; '.join(describe_definition_changes(before[name], now))}); {how}"
            )
    return found
