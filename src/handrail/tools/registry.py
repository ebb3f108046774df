"""The open set of tools at start-up, and the closed set that runs.

Nothing registers itself by being imported, and no name wins by coming last.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from handrail.core.canonical import digest
from handrail.core.dependencies import Deps
from handrail.core.errors import (
    DuplicateEnsemble,
    DuplicateTool,
    InvalidDefinition,
    RegistryFrozen,
    UnknownTool,
    UsageError,
)
from handrail.core.shared_values import SharedValues
from handrail.tools.definition import KEBAB, ToolDefinition
from handrail.tools.ensemble import Ensemble, EnsembleUse
from handrail.tools.handlers import Style
from handrail.tools.lookalikes import lookalike_keys
from handrail.tools.near_names import NearNames
from handrail.tools.tool import Tool, as_tool

if TYPE_CHECKING:
    from handrail.tools.search import ToolIndex

Names = Literal["any", "kebab"]
"""`kebab` holds every name to nrv's rule: lowercase words joined by `-`."""


class ToolRegistry:
    """Collects tools, refuses mistakes at once, then freezes."""

    def __init__(self, *, names: Names = "any") -> None:
        self._names = names
        self._tools: dict[str, Tool] = {}
        self._looks: dict[str, Tool] = {}
        """Tools by what their names look like."""
        self._ensembles: dict[str, Ensemble] = {}
        self._ensemble_looks: dict[str, str] = {}
        """The names of ensembles by what they look like."""
        self._frozen = False

    def register(
        self,
        what: Tool | ToolDefinition | Mapping[str, Any] | Ensemble | Callable[..., Any],
        handler: Callable[..., Any] | None = None,
        *,
        replace: bool = False,
        style: Style | None = None,
    ) -> Self:
        """Add a tool, a function, an ensemble, or a definition (ours or a dict) with its handler.

        `style` says how the handler of a definition is called; without it the names of its parameters decide.

        Raises:
            DuplicateTool: The name, or one that looks the same, is taken; `replace=True` means it.
            DuplicateEnsemble: Another ensemble has the name, or one that looks the same.
            InvalidDefinition: The name breaks the rule, a definition has no handler, or a tool gets a second one.
            InvalidSchema: A schema is wrong, reaches outside, or is too large.
            RegistryFrozen: `freeze()` was called before.
        """
        added = tuple(_tools_in(what, handler, style))
        if isinstance(what, Ensemble):
            self._enter(what)
        for tool in added:
            self._add(tool, replace)
        return self

    def freeze(self) -> RegisteredTools:
        """The closed set. The registry takes nothing more."""
        self._frozen = True
        return RegisteredTools(self._tools.values())

    def _enter(self, ensemble: Ensemble) -> None:
        if self._frozen:
            raise RegistryFrozen(ensemble.name)
        if self._ensembles.setdefault(ensemble.name, ensemble) is not ensemble:
            raise DuplicateEnsemble(ensemble.name, ensemble.name)

    def _add(self, tool: Tool, replace: bool) -> None:
        if self._frozen:
            raise RegistryFrozen(tool.name)
        if self._names == "kebab" and not KEBAB.fullmatch(tool.name):
            raise InvalidDefinition(f"tool name {tool.name!r} is not kebab-case, as in 'read-file'")
        keys = lookalike_keys(tool.name)
        for taken in filter(None, map(self._looks.get, keys)):
            if not (replace and taken.name == tool.name):
                raise DuplicateTool(tool.name, taken.name, source=tool.source, other=taken.source)
        self._check_ensemble(tool.ensemble)
        self._looks.update(dict.fromkeys(keys, tool))
        self._tools[tool.name] = tool

    def _check_ensemble(self, name: str | None) -> None:
        for key in lookalike_keys(name) if name else ():
            if (taken := self._ensemble_looks.setdefault(key, name or "")) != name:
                raise DuplicateEnsemble(name or "", taken)


class RegisteredTools:
    """A fixed set of tools; `digest` names exactly what models were offered."""

    __slots__ = ("_by_name", "_digest", "_index", "_near", "_needing", "_scoped", "_tools", "has_secrets", "shared")

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = tuple(tools)
        self._by_name = {name: tool for tool in self._tools for name in (tool.scoped_name, tool.name)}
        self._needing = tuple(tool for tool in self._tools if tool.deps_type is not None or tool.begins_runs)
        self.has_secrets: bool = any(tool.secrets for tool in self._tools)
        """Whether a call of one of them may hold what must not be written down."""
        self._digest: str | None = None
        self._index: ToolIndex | None = None
        self._near: NearNames | None = None
        self._scoped: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        """The names that were last asked for, as they were given and in full."""
        self.shared: SharedValues = SharedValues()
        """What others made of this set, as the offers to a model."""

    @property
    def digest(self) -> str:
        if self._digest is None:
            self._digest = digest(sorted((tool.described() for tool in self._tools), key=lambda item: item["name"]))
        return self._digest

    @property
    def index(self) -> ToolIndex:
        """Finds tools of this set by words. It is made when it is first asked for: most sets are small."""
        if self._index is None:
            from handrail.tools.search import ToolIndex

            groups = {tool.name: tool.ensemble for tool in self._tools if tool.ensemble}
            self._index = ToolIndex(self.definitions, groups)
        return self._index

    def find(self, name: str) -> Tool:
        """The tool of that name, plain or as `ensemble:tool`.

        Raises:
            UnknownTool: There is none; near names are in the message, and never taken for it.
        """
        try:
            return self._by_name[name]
        except KeyError:
            if self._near is None:
                self._near = NearNames(self._by_name)
            raise UnknownTool(name, self._near.find(name)) from None

    def scoped_names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The names in full, as `ensemble:tool`. One that no tool has stays as it is."""
        asked, scoped = self._scoped
        if asked != names:  # else they are those of the turn before, as nearly always
            scoped = tuple(self._by_name[name].scoped_name if name in self._by_name else name for name in names)
            self._scoped = names, scoped
        return scoped

    def check_deps(self, deps: Any, deps_type: Any = None) -> None:
        """Check what a program gives all of them as `Invocation.deps`, or the type of what it will give.

        Raises:
            UsageError: It is not what one of them needs.
        """
        for tool in self._needing:
            tool.check_deps(deps, deps_type)

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        return tuple(tool.definition for tool in self._tools)

    def with_tool(self, tool: Tool) -> RegisteredTools:
        """This set and one more tool."""
        return tool.sets.get(self, lambda: RegisteredTools((*self._tools, tool)))

    def for_model(self, model: str) -> RegisteredTools:
        """The tools that this model may call."""
        if all(tool.definition.models is None for tool in self._tools):
            return self
        return RegisteredTools(tool for tool in self._tools if is_open_to_model(tool, model))

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"RegisteredTools({', '.join(tool.scoped_name for tool in self._tools)})"


class NamedFunction(Protocol):
    """A function or a method, and not just anything that can be called: a `Tool` is asked what it needs."""

    __name__: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


ToolLike = Tool[Deps] | Ensemble | RegisteredTools | NamedFunction | partial[Any]
"""What stands in a list of tools: `ToolLike[Shop]` is for a session whose dependencies are a `Shop`."""


def flattened_tools(tools: Any) -> Iterable[Any]:
    """Tools as they were given, if that is several in a row.

    Raises:
        UsageError: It is one tool, a dict or a text, with what to write instead.
    """
    if isinstance(tools, Mapping):
        raise UsageError("tools are given as a list, and each has its own name; write list(tools.values())")
    if isinstance(tools, str | bytes):
        raise UsageError(f"{tools!r} is a text; give a list of functions, tools or ensembles")
    if isinstance(tools, Ensemble) or callable(tools):
        name = getattr(tools, "name", None) or getattr(tools, "__name__", "tool")
        raise UsageError(f"tools are given as a list; write [{name}]")
    if not isinstance(tools, Iterable):
        raise UsageError(f"{type(tools).__name__!r} is not a list of tools; give functions, tools or ensembles in one")
    return tools


def registered(*items: Any) -> RegisteredTools:
    """Tools, functions, ensembles and registered sets as one closed set, in one step.

    It is the same set for the same items, so that what is made of a set is made once however many use it.
    """
    if len(items) == 1 and isinstance(items[0], RegisteredTools):
        return items[0]
    parts = [(item, tuple(item if isinstance(item, RegisteredTools) else _tools_in(item))) for item in items]
    ensembles = tuple(item for item, _ in parts if isinstance(item, Ensemble))
    tools = tuple(tool for _, tools in parts for tool in tools)
    if not tools:
        return _frozen(ensembles, tools)
    newest = max(tools, key=operator.attrgetter("serial"))
    return newest.sets.get((ensembles, tools), lambda: _frozen(ensembles, tools))


def _frozen(ensembles: Iterable[Ensemble], tools: Iterable[Tool]) -> RegisteredTools:
    registry = ToolRegistry()
    for ensemble in ensembles:
        registry._enter(ensemble)
    for tool in tools:
        registry.register(tool)
    return registry.freeze()


def _tools_in(what: Any, handler: Callable[..., Any] | None = None, style: Style | None = None) -> Iterable[Tool]:
    if handler is not None and not isinstance(what, Mapping | ToolDefinition):
        raise InvalidDefinition(f"{what!r} has its handler already; a second one goes with a definition only")
    if style is not None and handler is None:
        raise InvalidDefinition(f"{what!r} comes without a handler; a style goes with a definition and its handler")
    if isinstance(what, Ensemble):
        return what.tools
    if isinstance(what, Mapping):
        what = ToolDefinition.from_dict(what)
    if isinstance(what, ToolDefinition):
        if handler is None:
            raise InvalidDefinition(f"tool {what.name!r} has no handler; register(definition, handler)")
        return (Tool(what, handler, style),)
    return (as_tool(what),)


def is_open_to_model(tool: Tool, model: str | None) -> bool:
    """Whether this model may call it; None is a caller that is no model."""
    models = tool.definition.models
    return models is None or model is None or model in models


_LONG = 3.0
"""Seconds after which it is told who is waited for."""


@asynccontextmanager
async def prepared_tools(items: Iterable[Any]) -> AsyncIterator[RegisteredTools]:
    """Tools, functions and ensembles as one set, the ensembles prepared: all at once, so the slowest counts.

    Those that somebody else prepared are theirs to close; the others are closed when the last who uses them ends.
    """
    items = tuple(items)
    uses = [EnsembleUse(item) for item in items if isinstance(item, Ensemble)]
    async with AsyncExitStack() as stack:
        await prepare_ensembles(uses)
        for use in uses:
            stack.push_async_callback(use.close)
        yield registered(*items)


async def prepare_ensembles(
    ensembles: Iterable[Ensemble | EnsembleUse], tell: Callable[[str], None] = lambda line: None
) -> None:
    """Get all of them ready at once: it takes as long as the slowest. If one cannot be, none is left open.

    Whoever has waited for long is told for whom.

    Raises:
        Exception: The first failure of one of them.
    """
    ensembles = tuple(ensembles)
    tasks = [asyncio.create_task(each.prepare()) for each in ensembles]
    try:
        if tasks:
            done, late = await asyncio.wait(tasks, timeout=_LONG, return_when=asyncio.FIRST_EXCEPTION)
            if late and all(task.exception() is None for task in done):
                names = (each.name for each, task in zip(ensembles, tasks, strict=True) if task in late)
                tell(f"Still waiting for {', '.join(map(repr, names))} …")
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(each.close() for each in ensembles), return_exceptions=True)
        raise
