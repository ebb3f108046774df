"""What does the work of a described tool: a Python function, a program, an HTTP request, a handler, or nothing yet."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from handrail.core.errors import ToolError, describe
from handrail.core.invocation import Invocation
from handrail.tools.files.command import read_command
from handrail.tools.files.http import SAFE, method_of, read_http
from handrail.tools.files.table import Table

BODIES = ("python", "command", "http")

_REFERENCE = re.compile(r"(?P<module>\w+(?:\.\w+)*):(?P<attribute>\w+(?:\.\w+)*)")


@dataclass(frozen=True, slots=True)
class Body:
    """A handler or a `Tool`, and what its kind says about the tool."""

    handler: Callable[..., Any]
    side_effects: bool | None = None
    """What counts where the descriptor does not say; None leaves it to the handler."""
    from_signature: bool = False
    """It is Python, so that its signature can say what its arguments are."""


@dataclass(frozen=True, slots=True)
class Undone:
    """The handler of a tool that is described and not yet made: it says so."""

    name: str

    async def __call__(self, context: Invocation, arguments: Mapping[str, Any]) -> Any:
        raise ToolError(
            "not_implemented",
            f"{self.name!r} is described but has no body; give it python = …, command = … or http = …, or pass "
            "handlers={…}",
        )


def read_body(table: Table, name: str, schema: Mapping[str, Any], handlers: Mapping[str, Callable[..., Any]]) -> Body:
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
            return Body(_imported(table), from_signature=True)
        case ["command"]:
            return Body(read_command(table, schema), side_effects=True)
        case ["http"]:
            effects = table.flag("side_effects")
            effects = method_of(table) not in SAFE if effects is None else effects
            return Body(read_http(table, schema, side_effects=effects), side_effects=effects)
    if name in handlers:
        return Body(handlers[name], from_signature=True)
    return Body(Undone(name))


def _imported(table: Table) -> Callable[..., Any]:
    reference = table.text("python") or ""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise table.error("python", f"must be 'module:function', as in 'mytools.files:read_file', not {reference!r}")
    try:
        module = importlib.import_module(match["module"])
    except Exception as error:
        raise table.error("python", f"cannot import {match['module']!r}: {describe(error)}") from error
    try:
        found = reduce(getattr, match["attribute"].split("."), module)
    except AttributeError as error:
        raise table.error("python", f"{match['module']!r} has no {match['attribute']!r}") from error
    if not callable(found):
        raise table.error("python", f"{reference!r} is not callable; it must be a function or a tool")
    return found
