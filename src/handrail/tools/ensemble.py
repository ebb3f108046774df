"""A named group of tools with defaults and a life of its own: a TOML file, an MCP server, a Python module."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from handrail.core.errors import DuplicateTool, UsageError
from handrail.tools.tool import Retry, Tool, as_tool

State = Literal["new", "prepared", "closed"]
Hook = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ToolDefaults:
    """Defaults for the tools of a group."""

    timeout: float | None = None
    max_retries: int | None = None
    deduplicator: Any = None
    max_output: int | None = None

    def applied(self, tool: Tool, ensemble: str) -> Tool:
        changes: dict[str, Any] = {"ensemble": ensemble}
        if tool.definition.timeout is None and self.timeout is not None:
            changes["timeout"] = self.timeout
        if tool.retry is None and self.max_retries is not None:
            changes["retry"] = Retry(attempts=self.max_retries + 1)
        if tool.deduplicator is None and self.deduplicator is not None:
            changes["deduplicator"] = self.deduplicator
        if tool.max_output is None and self.max_output is not None:
            changes["max_output"] = self.max_output
        return tool.changed(**changes)


class Ensemble:
    """Tools that belong together. `ensemble:tool` names one of them exactly."""

    def __init__(
        self,
        name: str,
        tools: Iterable[Any] = (),
        *,
        enabled: bool = True,
        defaults: ToolDefaults = ToolDefaults(),
        on_prepare: Hook | None = None,
        on_close: Hook | None = None,
    ) -> None:
        if not name or ":" in name:
            raise UsageError(f"ensemble name {name!r} cannot be used: it must not be empty or contain ':'")
        if not name.isprintable():
            raise UsageError(f"ensemble name {name!r} cannot be used: it holds characters that nobody can see")
        self.name = name
        self.enabled: bool = enabled
        self.defaults: ToolDefaults = defaults
        self.state: State = "new"
        self._on_prepare = on_prepare
        self._on_close = on_close
        self._changing = asyncio.Lock()
        self._users: int | None = None
        """How many `EnsembleUse`s share it; None if it was prepared by `prepare()`, whose caller closes it."""
        self._life = 0
        """How often it was made ready: a use ends with the life that it began in."""
        self._tools: dict[str, Tool] = {}
        self._disabled: set[str] = set()
        for item in tools:
            self.register(item)

    def register(self, item: Any) -> Tool:
        """Add a tool or a function, with this group's defaults where it has none of its own."""
        tool = self.defaults.applied(as_tool(item), self.name)
        if tool.name in self._tools:
            raise DuplicateTool(tool.scoped_name)
        self._tools[tool.name] = tool
        return tool

    add_invoker = register

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that may be offered now: none while the group is disabled or closed."""
        if not self.enabled or self.state == "closed":
            return ()
        return tuple(tool for tool in self._tools.values() if tool.name not in self._disabled)

    @property
    def all_tools(self) -> Mapping[str, Tool]:
        """Every tool by name, enabled or not."""
        return dict(self._tools)

    def enable(self, tool: str | None = None) -> None:
        """The whole group, or one tool of it."""
        if tool is None:
            self.enabled = True
        else:
            self._disabled.discard(self._check_name(tool))

    def disable(self, tool: str | None = None) -> None:
        if tool is None:
            self.enabled = False
        else:
            self._disabled.add(self._check_name(tool))

    async def prepare(self) -> None:
        """Get ready to be used: connect, load. Once; after `close()` it may be prepared again."""
        async with self._changing:
            await self._make_ready()
            self._users = None

    async def close(self) -> None:
        """Let go of what `prepare()` got. It counts as closed even if that fails: it is not tried twice."""
        async with self._changing:
            await self._let_go()

    async def _make_ready(self) -> None:
        if self.state == "prepared":
            return
        if self._on_prepare is not None:
            await self._on_prepare()
        self.state = "prepared"
        self._users = 0
        self._life += 1

    async def _let_go(self) -> None:
        was, self.state = self.state, "closed"
        if was == "prepared" and self._on_close is not None:
            await self._on_close()

    async def prepare_invokers(
        self,
        descriptors: Mapping[str, Any],
        defaults: Mapping[str, Any] | None = None,
        handlers: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        """Make the tools that descriptors describe, with these defaults, and prepare."""
        from handrail.tools.files.build import build_tool, read_defaults  # they build on Ensemble's own module

        if defaults is not None:
            self.defaults = read_defaults(defaults)
        built = []
        for name, descriptor in descriptors.items():
            given = {key: handler for key, handler in (handlers or {}).items() if key == name}
            built.append((build_tool({"name": name, **descriptor}, handlers=given), descriptor))
        for tool, descriptor in built:
            self.register(tool)
            if descriptor.get("invoker", descriptor).get("enabled", True) is False:
                self.disable(tool.name)
        await self.prepare()

    async def __aenter__(self) -> Self:
        await self.prepare()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _check_name(self, tool: str) -> str:
        if tool not in self._tools:
            raise UsageError(f"ensemble {self.name!r} has no tool {tool!r}; it has {', '.join(self._tools) or 'none'}")
        return tool

    def __repr__(self) -> str:
        return f"Ensemble({self.name!r}, {len(self._tools)} tools, {self.state})"


class EnsembleUse:
    """One of several users of an ensemble: the first who comes prepares it, and the last who goes closes it.

    An ensemble that its owner prepared is the owner's to close.
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self.name = ensemble.name
        self._ensemble = ensemble
        self._life: int | None = None

    async def prepare(self) -> None:
        ensemble = self._ensemble
        async with ensemble._changing:
            await ensemble._make_ready()
            if ensemble._users is not None:
                ensemble._users += 1
                self._life = ensemble._life

    async def close(self) -> None:
        ensemble, life, self._life = self._ensemble, self._life, None
        async with ensemble._changing:
            if life is None or ensemble._users is None or (ensemble._life, ensemble.state) != (life, "prepared"):
                return  # it never got there, or the owner has taken it over or closed it
            ensemble._users -= 1
            if ensemble._users == 0:
                await ensemble._let_go()
