"""Invokers and ensembles as the converser writes them, over `Tool`, `Ensemble` and the executor.

`@register_invoker` also puts the invoker into `INVOCABLES`, where descriptors without a body find it by name. Nothing
runs by being registered: a tool is offered only if an ensemble has it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from handrail.core.calls import ToolCall
from handrail.core.context import Context as CallContext
from handrail.core.errors import DuplicateTool, InvalidArguments, ToolError, UsageError
from handrail.execute.dedupe.create import create_deduplicator as create_deduplicator
from handrail.execute.executor import Executor
from handrail.tools import ensemble
from handrail.tools.files.load import read_ensemble
from handrail.tools.files.toml_table import read_toml_file
from handrail.tools.tool import Tool

Arguments = dict[str, Any]
Invocable = Callable[[Any, Arguments], Awaitable[Any]]
"""Takes the context and the arguments. The context is the `Invocation`: it has `auxdata` and `namespace`."""


class InvocationTimeout(ToolError, TimeoutError):
    """The invocable took too long: a `TimeoutError`, as `asyncio.wait_for` raises around one."""


class Invoker:
    """A tool that can be called by hand. The executor checks the arguments, and answers repeated calls."""

    def __init__(
        self,
        name: str,
        invocable: Invocable,
        arguments_schema: dict[str, Any],
        ensemble: Ensemble | None = None,
        deduplicator: Any = None,
        *,
        description: str = "",
        side_effects: bool = False,
    ) -> None:
        """
        Raises:
            InvalidSchema: The schema is wrong.
        """
        self.tool: Tool = Tool.from_function(
            invocable,
            name=name,
            description=description,
            schema=arguments_schema,
            style="context",
            deduplicator=create_deduplicator(deduplicator),
            side_effects=side_effects,
        )
        self.ensemble = ensemble
        self._executor: Executor | None = None

    @classmethod
    def of(cls, tool: Tool, ensemble: Ensemble | None = None, executor: Executor | None = None) -> Invoker:
        """An invoker of a tool that is made already; with an executor, that one runs it."""
        made = cls.__new__(cls)
        made.tool, made.ensemble, made._executor = tool, ensemble, executor
        return made

    @property
    def name(self) -> str:
        return self.tool.name

    @property
    def invocable(self) -> Callable[..., Any]:
        return self.tool.handler

    @property
    def arguments_schema(self) -> dict[str, Any]:
        return self.tool.definition.input_schema

    @property
    def deduplicator(self) -> Any:
        return self.tool.deduplicator

    async def __call__(self, context: CallContext, arguments: Arguments) -> Any:
        """
        Raises:
            InvalidArguments: The arguments do not fit the schema.
            InvocationTimeout: It took too long.
            ToolError: It was refused, or failed.
        """
        if self._executor is None:
            self._executor = Executor([self.tool])
        result = await self._executor.invoke(ToolCall("", self.tool.scoped_name, arguments), context)
        if result.error is None:
            return result.content
        match result.outcome:
            case "invalid_arguments":
                raise InvalidArguments(result.error.message.removeprefix("invalid_arguments: "))
            case "timeout":
                raise InvocationTimeout(result.error.code, result.error.message)
        raise ToolError(result.error.code, result.error.message)

    async def aclose(self) -> None:
        """End what still runs of calls that were made by hand. It may be called again afterwards."""
        executor, self._executor = self._executor, None
        if executor is not None:
            await executor.aclose()

    def __repr__(self) -> str:
        return f"Invoker({self.name!r})"


INVOCABLES: dict[str, Invoker] = {}
"""What `@register_invoker` registered, by name."""


def register_invoker(
    name: str,
    schema: dict[str, Any],
    *,
    description: str | None = None,
    deduplicator: Any = None,
    side_effects: bool = False,
) -> Callable[[Invocable], Invoker]:
    """Make an invoker of a coroutine function, and let descriptors find it by its name.

    Raises:
        DuplicateTool: Another function is registered under the name.
    """

    def decorate(function: Invocable) -> Invoker:
        made = Invoker(
            name,
            function,
            schema,
            deduplicator=deduplicator,
            description=description or function.__doc__ or "",
            side_effects=side_effects,
        )
        taken = INVOCABLES.get(name)
        if taken is not None and taken.tool.source != made.tool.source:
            raise DuplicateTool(name, name, source=made.tool.source, other=taken.tool.source)
        INVOCABLES[name] = made
        return made

    return decorate


def load_invocable(name: str) -> Callable[..., Any]:
    """The function that was registered under a name.

    Raises:
        UsageError: There is none.
    """
    if name not in INVOCABLES:
        known = ", ".join(sorted(INVOCABLES)) or "none"
        raise UsageError(
            f"no invocable is registered as {name!r}; there are {known}. Write @register_invoker(name={name!r}, "
            "schema=…) above its function, and import its module"
        )
    return INVOCABLES[name].invocable


class Ensemble(ensemble.Ensemble):
    """`handrail.Ensemble` that takes invokers, and finds the bodies of descriptors by name."""

    def __init__(self, name: str, tools: Iterable[Any] = (), **options: Any) -> None:
        self._invokers: dict[str, Invoker] = {}
        super().__init__(name, tools, **options)

    @property
    def invokers(self) -> dict[str, Invoker]:
        """The invokers that may be offered, by name."""
        return {tool.name: self._invokers[tool.name] for tool in self.tools}

    def register(self, item: Any) -> Tool:
        """Add an invoker, a tool or a function."""
        tool = super().register(item.tool if isinstance(item, Invoker) else item)
        tool = self._tools[tool.name] = _with_deduplicator(tool)
        self._invokers[tool.name] = Invoker.of(tool, self)
        return tool

    add_invoker = register

    async def close(self) -> None:
        """Let go of what `prepare()` got, and of calls that were made by hand."""
        await super().close()
        for invoker in self._invokers.values():
            await invoker.aclose()

    async def prepare_invokers(
        self,
        descriptors: Mapping[str, Any],
        defaults: Mapping[str, Any] | None = None,
        handlers: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        """Make the tools that descriptors describe. One without a body is found by its name in `INVOCABLES`."""
        await super().prepare_invokers(descriptors, defaults, {**registered_tools(), **(handlers or {})})


def _with_deduplicator(tool: Tool) -> Tool:
    """The tool with the deduplicator that a file names, made: a program asks it. `semantic` needs an embedder, which
    the processor is given."""
    named = tool.deduplicator
    kind = named.get("kind") if isinstance(named, Mapping) else named
    if not isinstance(kind, str) or kind == "semantic":
        return tool
    return tool.changed(deduplicator=create_deduplicator(named))


def registered_tools() -> dict[str, Callable[..., Any]]:
    """The registered invokers as handlers for the readers of descriptors and files."""
    return {name: invoker.tool for name, invoker in INVOCABLES.items()}


ENSEMBLES = Path("data/ensembles")
"""The folder in which the document keeps its ensembles, below the folder that the program runs in."""


def load_ensemble(path: str | Path) -> Ensemble:
    """The ensemble of a file. The bodies of its invokers are those that `@register_invoker` registered.

    Raises:
        ConfigError: A file cannot be read, or something in it is wrong.
    """
    file = Path(path)
    read, _ = read_ensemble(read_toml_file(file), file.parent, registered_tools())
    made = Ensemble(read.name, read.all_tools.values(), enabled=read.enabled, defaults=read.defaults)
    offered = {tool.name for tool in read.tools} if read.enabled else set(read.all_tools)
    for name in read.all_tools.keys() - offered:
        made.disable(name)
    return made


def load_invoker_descriptors(ensemble: str, folder: str | Path = ENSEMBLES) -> dict[str, Any]:
    """The descriptors in `<folder>/<ensemble>/invokers/*.toml`, by the names of their invokers.

    Raises:
        ConfigError: A file cannot be read.
    """
    found: dict[str, Any] = {}
    for file in sorted((Path(folder) / ensemble / "invokers").glob("*.toml")):
        descriptor = dict(read_toml_file(file).values)
        found[descriptor.get("invoker", {}).get("name", file.stem)] = descriptor
    return found


async def prepare_invocables(provider_config: Mapping[str, Any]) -> list[Ensemble]:
    """The ensembles of a configuration, each invoker with the function that is registered under its name.

    Raises:
        UsageError: No function is registered under a name.
    """
    ensembles = []
    for described in provider_config["ensembles"]:
        made = Ensemble(described["name"], enabled=described.get("enabled", True))
        for invoker in described["invokers"]:
            if invoker.get("enabled", True):
                made.register(_invoker(invoker, made))
        await made.prepare()
        ensembles.append(made)
    return ensembles


def _invoker(described: Mapping[str, Any], ensemble: Ensemble) -> Invoker:
    return Invoker(
        described["name"],
        load_invocable(described["name"]),
        msgspec.to_builtins(described["arguments"]),
        ensemble,
        create_deduplicator(described.get("deduplicator")),
        description=described.get("description", ""),
    )
