"""Changing a group of tools is a function from tools to tools.

safe = prefixed("fs_", filtered(lambda tool: tool.reads, files.tools))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from handrail.core.errors import UsageError
from handrail.tools.tool import Tool


def filtered(keep: Callable[[Tool], bool], tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """The tools that `keep` is true for."""
    return tuple(tool for tool in tools if keep(tool))


def prefixed(prefix: str, tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """The tools with a prefix before each name."""
    return tuple(tool.changed(name=prefix + tool.name) for tool in tools)


def renamed(names: Mapping[str, str], tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """Give some tools other names.

    Raises:
        UsageError: A name to change is not there, so the mapping is stale.
    """
    tools = tuple(tools)
    absent = sorted(set(names) - {tool.name for tool in tools})
    if absent:
        raise UsageError(f"cannot rename {', '.join(map(repr, absent))}: no such tool in the group")
    return tuple(tool.changed(name=names[tool.name]) if tool.name in names else tool for tool in tools)
