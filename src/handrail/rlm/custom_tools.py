"""What a user gives to the code of a run: functions and tools, which run here, and values, which are bound there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from handrail.core.errors import UsageError
from handrail.core.jsontext import why_not_json
from handrail.rlm.repl.prelude import RESERVED, is_taken
from handrail.rlm.repl.turns import REPL
from handrail.run.code.functions import python_name
from handrail.sandbox.port import JSON
from handrail.tools.ensemble import Ensemble
from handrail.tools.tool import Tool


class ReservedName(UsageError, ValueError):
    """The REPL has that name already."""


@dataclass(frozen=True, slots=True)
class CustomTools:
    """Read from `custom_tools`."""

    tools: tuple[Tool | Ensemble, ...] = ()
    values: Mapping[str, JSON] = field(default_factory=dict)


def read_custom_tools(given: Mapping[str, Any] | None) -> CustomTools:
    """Each entry is a function, a `Tool`, an `Ensemble`, a JSON value, or `{"tool": …, "description": …}`.

    A bare function is taken to change something, for nobody has said otherwise: its calls wait for a decision, and
    are never made twice. Give a `Tool` with `side_effects=False` for one that only reads.

    A `Tool` may have any name that tools have: code calls `list-issues` as `list_issues`.

    Raises:
        ReservedName: The REPL has that name already.
        UsageError: An entry is none of these.
    """
    if not isinstance(given, Mapping | None):
        raise UsageError("custom_tools has functions, tools and values by name; write custom_tools={'add': add}")
    tools: list[Tool | Ensemble] = []
    values: dict[str, JSON] = {}
    for name, entry in (given or {}).items():
        value, description = _entry(entry)
        if isinstance(value, Ensemble):
            tools.append(value)
            continue
        _check(python_name(name) if isinstance(value, Tool) and isinstance(name, str) else name)
        if isinstance(value, Tool) or callable(value):
            tools.append(_tool(name, value, description))
        else:
            values[name] = _value(name, value)
    return CustomTools(tuple(tools), values)


def _entry(entry: Any) -> tuple[Any, str | None]:
    match entry:
        case {"tool": value, **rest}:
            description = rest.get("description")
            return value, description if isinstance(description, str) else None
    return entry, None


def _check(name: Any) -> None:
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
        raise UsageError(f"{name!r} cannot be the name of a tool or value in the REPL; give a public name of Python")
    if is_taken(name) or name == REPL:
        taken = ", ".join(sorted(RESERVED))
        raise ReservedName(f"custom_tools cannot have {name!r}: the REPL has it already, as it has {taken}; rename it")


def _tool(name: str, value: Any, description: str | None) -> Tool:
    tool = value if isinstance(value, Tool) else Tool.from_function(value, name=name, side_effects=True)
    return tool.changed(name=name) if description is None else tool.changed(name=name, description=description)


def _value(name: str, value: Any) -> JSON:
    if (why := why_not_json(value)) is not None:
        raise UsageError(f"the value {name!r} of custom_tools is neither a function nor JSON: {why}")
    return msgspec.json.decode(msgspec.json.encode(value))
