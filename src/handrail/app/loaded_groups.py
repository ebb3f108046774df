"""The groups of tools that an app holds, across reloads of its configuration.

A group that a new configuration leaves as it was is kept, connection and all. One that
it changes or drops stays open for the runs that began with it, and is closed after the last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from handrail.app.person import Person
from handrail.app.tool_groups import (
    AppMcpServer,
    GroupContext,
    ToolGroup,
    approved_servers,
    close_all,
    load_groups,
    make_server,
)
from handrail.config.tools import default_set_of
from handrail.config.values import Config
from handrail.core.errors import DuplicateTool, McpError, UsageError
from handrail.tools.ensemble import Ensemble
from handrail.tools.registry import RegisteredTools, prepare_ensembles, registered
from handrail.tools.tool import Tool

Beside = Callable[[RegisteredTools], tuple[Tool, ...]]
"""Tools that go with these."""


_NAMED = 5
"""Tools that are named where more are held back."""
Sets = tuple[RegisteredTools, ...]
"""Tools of runs under way, and of those that begin now."""


@dataclass(frozen=True, slots=True)
class _LoadedConfig:
    """A configuration, and what there is of it."""

    config: Config
    groups: tuple[ToolGroup, ...] = ()
    servers: Mapping[str, AppMcpServer] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[ToolGroup | AppMcpServer, ...]:
        return (*self.groups, *self.servers.values())


class LoadedGroups:
    def __init__(
        self,
        config: Config,
        wanted: tuple[str, ...],
        around: GroupContext,
        own: tuple[Any, ...] = (),
        beside: Beside = lambda others: (),
    ) -> None:
        self._held = _LoadedConfig(config)
        self._wanted = wanted
        self._around = around
        self._own = own
        """Tools of the runtime that are offered where there are others."""
        self._beside = beside
        self._retired: list[tuple[ToolGroup | AppMcpServer, Sets]] = []
        """What was dropped, and the sets that runs had then which may still use it."""
        self._told: set[str] = set()

    @property
    def config(self) -> Config:
        return self._held.config

    @property
    def servers(self) -> Mapping[str, AppMcpServer]:
        return dict(self._held.servers)

    @property
    def groups(self) -> tuple[ToolGroup, ...]:
        return self._held.groups

    @property
    def absent(self) -> tuple[str, ...]:
        """The servers that are switched on and not there; why was told."""
        if not self.config.llm.tools_enabled:
            return ()
        found = {name for name, server in self._held.servers.items() if not server.ensemble.problem}
        return tuple(name for name, each in self.config.mcp.items() if each.enabled and name not in found)

    @property
    def _person(self) -> Person:
        return self._around.person

    async def open(self, groups: tuple[ToolGroup, ...]) -> RegisteredTools:
        """Get ready what files brought, and the servers: the tools that there are.

        Raises:
            UsageError: A server that is required may not be started, or lacks a variable; or two tools have one name.
            McpError: A server that is required cannot be reached.
        """
        self._held = await self._ready(self.config, groups)
        return self.tools()

    async def change(self, config: Config, in_use: Sets) -> None:
        """Hold what this configuration says instead. If it is not available, everything stays as it was.

        Raises:
            HandrailError: Something in it, or in a file that it names, is wrong.
        """
        before = self._held
        held = await self._ready(config, load_groups(config, self._wanted, before.groups))
        try:
            self._offered(held)
        except BaseException:
            await close_all(part for part in held.parts if part not in before.parts)
            raise
        self._held = held
        self._retired += [(part, _with_tools_of(part, in_use)) for part in before.parts if part not in held.parts]
        await self._look_again()

    async def _look_again(self) -> None:
        """Ask servers for their tools on which somebody has given another word since."""
        for server in self._held.servers.values():
            approval = self._approval(self.config, server.name)
            if approval == server.approval:
                continue
            server.approval = approval
            with suppress(McpError):  # it is not there; when it is, it is asked anyway
                await server.ensemble.refresh()

    async def sweep(self, in_use: Sets) -> None:
        """Close what was dropped and no run under way can call any more."""
        used = set(map(id, in_use))
        over = [part for part, sets in self._retired if used.isdisjoint(map(id, sets))]
        self._retired = [each for each in self._retired if each[0] not in over]
        await close_all(over)

    async def _ready(self, config: Config, groups: tuple[ToolGroup, ...]) -> _LoadedConfig:
        before = self._held
        wanted = {} if self._wanted or not config.llm.tools_enabled else await approved_servers(config, self._person)
        kept = {
            name: server for name, server in before.servers.items() if self._is_same(config, server, wanted.get(name))
        }
        fresh = [group for group in groups if group not in before.groups]
        new: dict[str, AppMcpServer] = {}
        try:
            for name in wanted:
                if name not in kept and (server := self._server_or_none(config, name)) is not None:
                    new[name] = server
            ensembles = (*_ensembles(fresh), *(server.ensemble for server in new.values()))
            await prepare_ensembles(ensembles, (lambda line: None) if self._person.patient else self._person.tell)
            for server in new.values():
                server.approval = self._approval(config, server.name)
        except BaseException:
            await close_all((*fresh, *new.values()))
            raise
        for server in new.values():
            if server.ensemble.problem:
                self._person.tell(f"{server.ensemble.problem}; its tools come when it does")
        servers = {name: kept.get(name) or new[name] for name in wanted if name in kept or name in new}
        return _LoadedConfig(config, groups, servers)

    def _is_same(self, config: Config, server: AppMcpServer, settings: Any) -> bool:
        before = self.config
        asks_as_before = server.settings.sampling is None or config.models == before.models
        return settings == server.settings and asks_as_before and config.file == before.file

    def _approval(self, config: Config, name: str) -> Any:
        return None if config.file is None else self._person.approvals.of(config.file, name)

    def _server_or_none(self, config: Config, name: str) -> AppMcpServer | None:
        try:
            return make_server(config, name, config.mcp[name], self._around)
        except UsageError as error:
            if config.mcp[name].required:
                raise
            self._person.tell(f"MCP server {name!r} is not used: {error}")
            return None

    def tools(self) -> RegisteredTools:
        """Everything that may be offered now, as one closed set.

        Raises:
            UsageError: Two tools have one name, or the default set names one that is not there.
        """
        return self._offered(self._held)

    def _offered(self, held: _LoadedConfig) -> RegisteredTools:
        config, servers = held.config, held.servers
        for server in servers.values():
            if server.ensemble.held:
                self._tell_once(_held_back(server))
        ensembles = (*(group.item for group in held.groups), *(server.ensemble for server in servers.values()))
        waiting = any(not server.ensemble.tools for server in servers.values())
        waiting = waiting or any(each.enabled and name not in servers for name, each in config.mcp.items())
        chosen = ensembles if self._wanted else default_set_of(config, ensembles, self._tell_once if waiting else None)
        own = self._own if chosen else ()
        try:
            there = registered(*chosen, *own)
            return registered(*there, *beside) if (beside := self._beside(there)) else there
        except DuplicateTool as error:
            how = prefix_for(error, config)
            raise (UsageError(f"{error}{how} in {config.file}") if how else error) from error

    def _tell_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._person.tell(line)

    async def close(self) -> None:
        """Everything, also what only older runs still used."""
        parts = (*(part for part, _ in self._retired), *self._held.parts)
        self._retired, self._held = [], _LoadedConfig(self.config)
        await close_all(parts)


def _held_back(server: AppMcpServer) -> str:
    names = sorted(server.ensemble.held)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    named = ", ".join(map(repr, names[:_NAMED]))
    return f"MCP server {server.name!r}: withheld: {named}{more}; see why with: handrail mcp show {server.name}"


def prefix_for(error: DuplicateTool, config: Config) -> str:
    """The prefix that tells two tools of one name apart, if one of them comes from a server."""
    sources = {f"ensemble {name!r}": name for name in config.mcp}
    server = sources.get(error.source) or sources.get(error.other)
    return "" if server is None else f': under [mcp.{server}], write prefix = "{server}_"'


def _with_tools_of(part: ToolGroup | AppMcpServer, sets: Sets) -> Sets:
    name = part.name if isinstance(part, AppMcpServer) else getattr(part.item, "name", "")
    return tuple(each for each in sets if any(tool.ensemble == name for tool in each))


def _ensembles(groups: Iterable[ToolGroup]) -> list[Ensemble]:
    return [group.item for group in groups if isinstance(group.item, Ensemble)]
