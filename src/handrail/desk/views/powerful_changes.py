"""Which changes of a configuration are made only at the machine itself. Pure.

Almost every setting widens what can be run, read or reached: ensembles and MCP servers are programs, rules and policy
say what runs unasked, roots say which files are read, a base URL says who gets the key. So this is a list of what is
harmless, and a setting that is new is not on it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

HARMLESS = frozenset({("default_model",), ("offering",)})
"""Which of the configured models answers, and which of the tools a turn offers."""


def powerful_changes(before: str, after: str) -> tuple[str, ...]:
    """The settings in which two texts differ and that are not harmless, by their tables: `rules`, `standard.io`."""
    try:
        one, two = tomllib.loads(before), tomllib.loads(after)
    except (ValueError, RecursionError):
        return ("the file, which is not TOML",)
    return tuple(sorted({".".join(path[:2]) for path in _differing(one, two, ()) if not _harmless(path)}))


def _harmless(path: tuple[str, ...]) -> bool:
    return any(path[: len(each)] == each for each in HARMLESS)


def _differing(one: Mapping[str, Any], two: Mapping[str, Any], at: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key in one.keys() | two.keys():
        first, second = one.get(key), two.get(key)
        if isinstance(first, Mapping) and isinstance(second, Mapping):
            yield from _differing(first, second, (*at, key))
        elif type(first) is not type(second) or first != second:
            yield (*at, key)
