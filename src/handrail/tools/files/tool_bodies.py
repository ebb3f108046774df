"""What does the work of a described tool: a Python function, a program, an HTTP request, a handler, or nothing yet."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from handrail.core.errors import ToolError, describe_exception
from handrail.core.invocation import Invocation
from handrail.tools.files.command_handler import read_command
from handrail.tools.files.http_handler import SAFE, method_of, read_http
from handrail.tools.files.static_python import reference_of
from handrail.tools.files.toml_table import TomlTable

BODIES = ("python", "command", "http")

Resolve = Callable[[TomlTable], Callable[..., Any]]
"""Gives the function or the `Tool` that `python = …` names in a table."""


@dataclass(frozen=True, slots=True)
class ToolBody:
    """A handler or a `Tool`, and what its kind says about the tool."""

    handler: Callable[..., Any]
    side_effects: bool | None = None
    """What counts where the descriptor does not say; None leaves it to the handler."""
    from_signature: bool = False
    """It is Python, so that its signature can say what its arguments are."""


@dataclass(frozen=True, slots=True)
class UnimplementedHandler:
    """The handler of a tool that is described and not yet made: it says so."""

    name: str

    async def __call__(self, context: Invocation, arguments: Mapping[str, Any]) -> Any:
        raise ToolError(
            "not_implemented",
            f"{self.name!r} is described but has no body; give it python = …, command = … or http = …, or pass "
            "handlers={…}",
        )


def import_function(table: TomlTable) -> Callable[..., Any]:
    """The function that a table names, from its module, which is imported.

    Raises:
        ConfigError: The reference is none, or there is no such function.
    """
    match = reference_of(table)
    try:
        module = importlib.import_module(match["module"])
    except Exception as error:
        raise table.error("python", f"cannot import {match['module']!r}: {describe_exception(error)}") from error
    try:
        found = reduce(getattr, match["attribute"].split("."), module)
    except AttributeError as error:
        raise table.error("python", f"{match['module']!r} has no {match['attribute']!r}") from error
    if not callable(found):
        raise table.error("python", f"{match[0]!r} is not callable; it must be a function or a tool")
    return found


def read_body(
    table: TomlTable,
    name: str,
    schema: Mapping[str, Any],
    handlers: Mapping[str, Callable[..., Any]],
    resolve: Resolve = import_function,
) -> ToolBody:
    """The one body that a descriptor has.

    Raises:
        ConfigError: It has two, or the one is wrong.
    """
    given = [key for key in BODIES if key in table]
    if len(given) > 1:
        raise table.error(given[1], f"{name!r} has a body already, {given[0]} at {table.at(given[0])}; keep one")
    if given and name in handlers:
        raise table.error(given[0], f"{name!r} has this body and a handler; keep one")
    match given:
        case ["python"]:
            return ToolBody(resolve(table), from_signature=True)
        case ["command"]:
            return ToolBody(read_command(table, schema), side_effects=True)
        case ["http"]:
            effects = table.flag("side_effects")
            effects = method_of(table) not in SAFE if effects is None else effects
            return ToolBody(read_http(table, schema, side_effects=effects), side_effects=effects)
    if name in handlers:
        return ToolBody(handlers[name], from_signature=True)
    return ToolBody(UnimplementedHandler(name))
