"""What is declared about a tool's results and arguments, and what is taken for granted where nothing is."""

from __future__ import annotations

from handrail.cli import text
from handrail.tools.argument_roles import argument_roles, sends_out
from handrail.tools.definition import ToolDefinition


def label_rows(definition: ToolDefinition) -> list[tuple[str, str]]:
    """The rows of `handrail tools show` about what may flow where."""
    rows = [("results", _results(definition))]
    if definition.extract is not None:
        rows.append(("extract", _named(list(definition.extract.get("properties", {})))))
    if definition.private:
        rows.append(("private", _named(definition.private)))
    leaves = sends_out(definition)
    if not definition.side_effects and not leaves:
        return rows
    roles = argument_roles(definition)
    stated = {*definition.directs, *definition.carries}
    for role in ("directs", "carries"):
        names = [name if name in stated else f"{name} (by its name)" for name, each in roles.items() if each == role]
        if names:
            rows.append((role, _named(names)))
    if leaves:
        by_name = "" if definition.sends_out else " (by its arguments)"
        rows.append(("sends out", f"what it is given leaves for a foreign place{by_name}"))
    return rows


def _results(definition: ToolDefinition) -> str:
    own = f", except {_named(definition.own)}" if definition.own else ""
    if isinstance(definition.untrusted, tuple) and definition.untrusted:
        return f"from outside: {_named(definition.untrusted)}{own}"
    return f"from outside{own}" if definition.untrusted else "trusted"


def _named(names: tuple[str, ...] | list[str]) -> str:
    return text.printable(", ".join(names))
