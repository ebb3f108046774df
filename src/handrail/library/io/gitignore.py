"""What .gitignore files say, as far as listing needs it: patterns, folders, anchors, exceptions."""

from __future__ import annotations

from dataclasses import dataclass

from handrail.core.errors import ToolError
from handrail.library.io.patterns import LinearPattern, glob_pattern

_MOST = 2_000
"""Rules of one file."""


@dataclass(frozen=True, slots=True)
class _IgnoreRule:
    base: str
    """The folder that its file is in."""
    pattern: LinearPattern
    folders_only: bool
    keeps: bool

    def has(self, way: str, *, is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        inside = way[len(self.base) + 1 :] if self.base else way
        return self.pattern.within(inside)


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules that hold in a folder: those of the folders above it, then its own."""

    rules: tuple[_IgnoreRule, ...] = ()

    def more(self, way: str, text: str) -> IgnoreRules:
        found = [_rule(way, line) for line in text.splitlines()[:_MOST]]
        return IgnoreRules((*self.rules, *(rule for rule in found if rule is not None)))

    def has(self, way: str, *, is_folder: bool) -> bool:
        """By the last rule that fits, as git does it."""
        for rule in reversed(self.rules):
            if rule.has(way, is_folder=is_folder):
                return not rule.keeps
        return False


def _rule(base: str, line: str) -> _IgnoreRule | None:
    line = line.rstrip()
    if not line or line.startswith("#"):
        return None
    keeps = line.startswith("!")
    line = line.removeprefix("!").removeprefix("\\")
    folders_only = line.endswith("/")
    try:
        pattern = glob_pattern(line)
    except ToolError:  # what cannot be read hides nothing
        return None
    return _IgnoreRule(base, pattern, folders_only, keeps)
