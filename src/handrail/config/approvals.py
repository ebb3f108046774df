"""What a person has approved: configurations, MCP servers with their tools as described, and standing rules.

An approval of a configuration is for what it would do beyond the defaults, as its files were then. A standing rule is
what somebody said when a call waited for their word, as: always for this. It holds for one configuration file, and an
`allow` for a tool as it was defined then.

An approval of a server is for exactly that program with those arguments and names of variables, and the values of
those variables that decide which code it runs, as PATH; or that address; and for the tools that the server had, word
for word. Programs that make an `McpEnsemble` themselves need none: their code is their word. The first connection of
an approved server fixes its tools. What changes after that is held back until somebody has looked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from handrail.config.approvals_file import (
    ApprovalsContent,
    ApprovalsFile,
    ConfigApproval,
    ServerApproval,
)
from handrail.config.powers import Powers
from handrail.config.standing_rules import checked_rule, with_rule
from handrail.config.user_file import config_key, state_folder
from handrail.core.canonical import digest
from handrail.core.ports import Clock, SystemClock
from handrail.execute.confirm import describe_definition_changes
from handrail.mcp.values import Endpoint, HttpEndpoint, RemoteTool, StdioEndpoint

_HERE = Path("handrail.toml")
"""Stands for the folder where there is no configuration."""
_NAMED = 3
"""Changed files that are named; of more the number is told."""
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
        case HttpEndpoint(url=url, headers=headers, users=users, other_users=others):
            # As they are written: which variable of the user's goes out in a header is what a person says yes to.
            binds: dict[str, Any] = {"url": url, "headers": dict(headers)}
            if users:
                binds |= {"users": {user: dict(own) for user, own in users.items()}, "other_users": others}
            return digest(binds)


class Approvals:
    """Everything that one user approved, by the configuration file that it is for."""

    def __init__(self, folder: Path, *, clock: Clock = SystemClock()) -> None:
        self._file = ApprovalsFile(folder)
        self._clock = clock

    @classmethod
    def here(cls, environ: Mapping[str, str] = os.environ) -> Approvals:
        """The approvals of this user."""
        return cls(state_folder(environ))

    @property
    def path(self) -> Path:
        return self._file.path

    # ── configurations ───────────────────────────────────────────────────────────────

    def approve_config(self, config: Path, powers: Powers, *, by: str) -> None:
        """Let a configuration do what it would do now. A change to it or to a file that it names ends the approval."""
        self.restore_config(
            config, ConfigApproval(binds=powers.binds, files=dict(powers.files), at=self._clock.now(), by=by)
        )

    def config_approval(self, config: Path) -> ConfigApproval | None:
        """The approval of a configuration, whether or not it still holds."""
        return self._file.read().configs.get(config_key(config))

    def restore_config(self, config: Path, approval: ConfigApproval | None) -> None:
        """Let this be the approval of a configuration, or let it have none."""
        key = config_key(config)

        def edit(book: ApprovalsContent) -> ApprovalsContent:
            others = {each: value for each, value in book.configs.items() if each != key}
            return replace(book, configs=others if approval is None else {**others, key: approval})

        self._file.change(edit)

    def revoke_config(self, config: Path) -> bool:
        """Withdraw the approval of a configuration; whether there was one."""
        if self.config_approval(config) is None:
            return False
        self.restore_config(config, None)
        return True

    def missing_approval(self, config: Path | None, powers: Powers) -> str | None:
        """Why a configuration may not be used yet, in words; None if it may."""
        if config is None or not powers.lines:
            return None
        known = self.config_approval(config)
        if known is None:
            return "it is not approved"
        if known.binds == powers.binds:
            return None
        return f"{_changed(known, powers)} since it was approved"

    # ── standing rules ───────────────────────────────────────────────────────────────

    def rules(self, config: Path | None) -> tuple[str, ...]:
        """What a person said once and for all, the newest first. Without a file it is for the folder one stands in."""
        return self._file.read().rules.get(config_key(config or _HERE), ())

    def add_rule(self, config: Path | None, rule: str) -> None:
        """Let it hold from now on, before those that are there; one for the same calls as it was before is replaced.

        Raises:
            UsageError: It is no rule, or an `allow` that does not say for which definition of the tool.
        """
        added = checked_rule(rule)
        self._put_rules(config, lambda before: with_rule(before, added))

    def remove_rule(self, config: Path | None, rule: str) -> bool:
        """Forget one, as it is written; whether it was there."""
        was = False

        def without(before: tuple[str, ...]) -> tuple[str, ...]:
            nonlocal was
            was = rule in before
            return tuple(each for each in before if each != rule)

        self._put_rules(config, without)
        return was

    def _put_rules(self, config: Path | None, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        key = config_key(config or _HERE)

        def edit(book: ApprovalsContent) -> ApprovalsContent:
            before = book.rules.get(key, ())
            after = change(before)
            return book if after == before else replace(book, rules={**book.rules, key: after})

        self._file.change(edit)

    # ── servers ──────────────────────────────────────────────────────────────────────

    def of(self, config: Path, server: str) -> ServerApproval | None:
        """What was approved of a server, if anything was."""
        return self._file.read().servers.get(config_key(config), {}).get(server)

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
        """Exchange the approval of a server for what is made of it, with nobody else writing meanwhile."""
        key = config_key(config)

        def edit(book: ApprovalsContent) -> ApprovalsContent:
            there = dict(book.servers.get(key, {}))
            before = there.pop(server, None)
            after = change(before)
            if after is before:
                return book
            return replace(book, servers={**book.servers, key: there if after is None else {**there, server: after}})

        self._file.change(edit)


def _changed(known: ConfigApproval, powers: Powers) -> str:
    changed = [path for path, digest in powers.files.items() if known.files.get(path) != digest]
    if not changed:
        return "what it would do changed"
    if len(changed) > _NAMED:
        return f"{len(changed)} files changed"
    return f"{', '.join(changed)} changed"


def described_tool(tool: RemoteTool) -> dict[str, Any]:
    """What a person approves of a tool: every word that a model or the executor goes by."""
    described: dict[str, Any] = msgspec.to_builtins(tool.said)
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
                    f"MCP server {server!r} is used for the first time: its {len(tools)} tools are accepted as they"
                    " are now; tools that change later are withheld until you review them"
                )
                return {}
            known = self._approvals.of(self._config, server)  # somebody else was quicker, or took the word back
        if known is None or known.tools is None or known.binds != approval_binding(endpoint):
            why = f"the approval of the server was revoked, or is for another one; handrail mcp approve {server}"
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
