"""What a person has approved: MCP servers that files name, with their tools as they were described.

An approval is for one server of one configuration file: for exactly that program with those arguments and names of
variables, and the values of those variables that decide which code it runs, as PATH; or that address; and for the
tools that the server had, word for word. Programs that make an `McpEnsemble` themselves need none: their code is
their word.

The first connection of an approved server fixes its tools. What changes after that is
held back until somebody has looked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from handrail.config.approvals_file import ServerApproval, config_key
from handrail.config.approved_configs import ConfigApprovals
from handrail.core.canonical import digest
from handrail.mcp.values import Endpoint, HttpEndpoint, RemoteTool, StdioEndpoint

_DECIDES = re.compile(
    r"PATH|LD_.*|DYLD_.*|PYTHON.*|NODE_.*|NPM_CONFIG_.*|UV_.*|PIP_.*|PERL5.*|RUBY.*|GEM_.*|JAVA_TOOL_OPTIONS"
    r"|JDK_JAVA_OPTIONS|BASH_ENV|ENV|GIT_.*|.*_PROXY|.*_REGISTRY|.*_INDEX_URL",
    re.IGNORECASE,
)
"""Variables whose values say which code a program runs, or where it fetches it from."""


def deciding_variables(endpoint: StdioEndpoint) -> dict[str, str]:
    """The variables whose values are approved too, as they are written."""
    return {name: endpoint.env[name] for name in sorted(endpoint.env) if _DECIDES.fullmatch(name)}


def approval_binding(endpoint: Endpoint) -> str:
    """What an approval of this endpoint is good for."""
    match endpoint:
        case StdioEndpoint():
            values = deciding_variables(endpoint)
            return digest([endpoint.approval, values]) if values else endpoint.approval
        case HttpEndpoint(url=url, headers=headers):
            # As they are written: which variable of the user's goes out in a header is what a person says yes to.
            return digest({"url": url, "headers": dict(headers)})


class Approvals(ConfigApprovals):
    """The approvals of servers, with those of configurations and the standing rules in the same file."""

    def of(self, config: Path, server: str) -> ServerApproval | None:
        """What was approved of a server, if anything was."""
        return self.read().servers.get(config_key(config), {}).get(server)

    def approve(self, config: Path, server: str, endpoint: Endpoint, *, by: str) -> None:
        """Let it be used. The tools that are fixed stay so, unless it is another program or address."""
        binds = approval_binding(endpoint)

        def approved(before: ServerApproval | None) -> ServerApproval:
            kept = before.tools if before is not None and before.binds == binds else None
            return ServerApproval(binds=binds, at=self._clock.now(), by=by, tools=kept)

        self._put(config, server, approved)

    def pin(self, config: Path, server: str, endpoint: Endpoint, tools: Mapping[str, RemoteTool], *, by: str) -> None:
        """Take its tools as they are now for those that are approved."""
        self._put(config, server, lambda before: self._pinned(endpoint, tools, by))

    def meet(self, config: Path, server: str, endpoint: Endpoint, tools: Mapping[str, RemoteTool]) -> bool:
        """If it may be used and nobody has fixed its tools yet, fix them as they are; whether that was done."""
        met = False

        def first(before: ServerApproval | None) -> ServerApproval | None:
            nonlocal met
            met = before is not None and before.tools is None and before.binds == approval_binding(endpoint)
            return self._pinned(endpoint, tools, "first use") if met else before

        self._put(config, server, first)
        return met

    def _pinned(self, endpoint: Endpoint, tools: Mapping[str, RemoteTool], by: str) -> ServerApproval:
        described = {name: described_tool(tool) for name, tool in tools.items()}
        return ServerApproval(binds=approval_binding(endpoint), at=self._clock.now(), by=by, tools=described)

    def revoke(self, config: Path, server: str) -> bool:
        """Take the word back; whether there was one."""
        was = self.of(config, server) is not None
        if was:
            self._put(config, server, lambda before: None)
        return was

    def _put(self, config: Path, server: str, change: Callable[[ServerApproval | None], ServerApproval | None]) -> None:
        """Exchange the word on a server for what is made of it, with nobody else writing meanwhile."""
        with self.locked() as book:
            servers = book.servers
            there = dict(servers.get(config_key(config), {}))
            before = there.pop(server, None)
            after = change(before)
            if after is not before:
                named = there if after is None else {**there, server: after}
                self.write(replace(book, servers={**servers, config_key(config): named}))


def described_tool(tool: RemoteTool) -> dict[str, Any]:
    """What a person approves of a tool: every word that a model or the executor goes by."""
    described: dict[str, Any] = msgspec.to_builtins(tool)
    return {key: value for key, value in described.items() if value not in (None, "")}


def unapproved_reason(approvals: Approvals, config: Path, server: str, endpoint: Endpoint) -> str | None:
    """Why a server may not be used yet, in words; None if it may."""
    known = approvals.of(config, server)
    if known is None:
        return "it is not approved"
    if known.binds == approval_binding(endpoint):
        return None
    what = (
        "its command, arguments, folder or variables"
        if isinstance(endpoint, StdioEndpoint)
        else "its address or headers"
    )
    return f"{what} changed since it was approved"
