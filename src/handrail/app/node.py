"""The groups of tools that an app holds, from the first configuration to the last.

A group that a new configuration leaves as it was is kept, connection and all. One that
it changes or drops stays open for the runs that began with it, until the app is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from handrail.app.parts import Around, Group, Server, approved, close_all, loaded, make_server, prepare_all
from handrail.app.person import Person
from handrail.config.tools import chosen_of
from handrail.config.values import Config
from handrail.core.errors import DuplicateTool, UsageError
from handrail.tools.ensemble import Ensemble
from handrail.tools.registry import RegisteredTools, registered
from handrail.tools.tool import Tool

Beside = Callable[[RegisteredTools], tuple[Tool, ...]]
"""Tools that go with these."""


class Node:
    def __init__(
        self,
        config: Config,
        wanted: tuple[str, ...],
        around: Around,
        own: tuple[Any, ...] = (),
        beside: Beside = lambda others: (),
    ) -> None:
        self.config = config
        self._wanted = wanted
        self._around = around
        self._own = own
        """Tools of the runtime that are offered where there are others."""
        self._beside = beside
        self._groups: tuple[Group, ...] = ()
        self._servers: dict[str, Server] = {}
        self._retired: list[Server | Ensemble] = []
        self._told: set[str] = set()

    @property
    def servers(self) -> Mapping[str, Server]:
        return dict(self._servers)

    @property
    def _person(self) -> Person:
        return self._around.person

    async def open(self, groups: tuple[Group, ...]) -> None:
        """Get ready what files brought, and the servers.

        Raises:
            UsageError: A server that is required may not be started, or lacks a variable.
            McpError: One that is required cannot be reached.
        """
        await self._take(self.config, groups)

    async def change(self, config: Config) -> None:
        """Hold what this configuration says instead. If it cannot be had, everything stays as it was.

        Raises:
            HandrailError: Something in it, or in a file that it names, is wrong.
        """
        await self._take(config, loaded(config, self._wanted, self._around, self._groups))

    async def _take(self, config: Config, groups: tuple[Group, ...]) -> None:
        wanted = {} if self._wanted or not config.llm.tools_enabled else await approved(config, self._person)
        kept = {
            name: server for name, server in self._servers.items() if self._is_same(config, server, wanted.get(name))
        }
        new = {name: server for name in wanted if name not in kept and (server := self._made(config, name)) is not None}
        fresh = _ensembles(group for group in groups if group not in self._groups)
        await prepare_all((*fresh, *(server.ensemble for server in new.values())))
        for server in new.values():
            server.approval = self._approval(config, server.name)
            if server.ensemble.problem:
                self._person.tell(f"{server.ensemble.problem}; its tools come when it does")
        self._retired += [server for name, server in self._servers.items() if name not in kept]
        self._retired += _ensembles(group for group in self._groups if group not in groups)
        self.config, self._groups = config, groups
        self._servers = {name: kept.get(name) or new[name] for name in wanted if name in kept or name in new}

    def _is_same(self, config: Config, server: Server, settings: Any) -> bool:
        same = settings == server.settings and self._approval(config, server.name) == server.approval
        return same and config.file == self.config.file

    def _approval(self, config: Config, name: str) -> Any:
        return None if config.file is None else self._person.approvals.of(config.file, name)

    def _made(self, config: Config, name: str) -> Server | None:
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
        ensembles = (*(group.item for group in self._groups), *(server.ensemble for server in self._servers.values()))
        waiting = any(not server.ensemble.tools for server in self._servers.values())
        waiting = waiting or any(each.enabled and name not in self._servers for name, each in self.config.mcp.items())
        chosen = ensembles if self._wanted else chosen_of(self.config, ensembles, self._tell_once if waiting else None)
        own = self._own if chosen else ()
        try:
            there = registered(*chosen, *own)
            return registered(*there, *beside) if (beside := self._beside(there)) else there
        except DuplicateTool as error:
            raise self._explained(error) from error

    def _explained(self, error: DuplicateTool) -> UsageError:
        how = prefix_for(error, self.config)
        return UsageError(f"{error}{how} in {self.config.file}") if how else error

    def _tell_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._person.tell(line)

    async def close(self) -> None:
        """Everything, also what only older runs still used."""
        parts = [*self._retired, *_ensembles(self._groups), *self._servers.values()]
        self._retired, self._groups, self._servers = [], (), {}
        try:
            await close_all(parts)
        finally:
            while self._around.opened:
                await self._around.opened.pop().aclose()


def prefix_for(error: DuplicateTool, config: Config) -> str:
    """How to tell two tools of one name apart, where one of them is of a server."""
    sources = {f"ensemble {name!r}": name for name in config.mcp}
    server = sources.get(error.source) or sources.get(error.other)
    return "" if server is None else f': under [mcp.{server}], write prefix = "{server}_"'


def _ensembles(groups: Iterable[Group]) -> list[Ensemble]:
    return [group.item for group in groups if isinstance(group.item, Ensemble)]
