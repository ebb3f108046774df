"""Standing rules: a person's word given in advance, in a file.

    allow io:read_file
    allow io:write_file path=docs/**
    deny  *:delete_*
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec
from msgspec import Struct

from handrail.core.confirmation import Allow, Confirmation, Decision, Deny
from handrail.core.errors import UsageError
from handrail.core.ports import Approver
from handrail.execute.confirm import DeferAll


class Rule(Struct, frozen=True):
    """A decision, the tools it is for, and what their arguments must look like."""

    decision: Literal["allow", "deny"]
    tool: str
    arguments: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Read one rule as people write it.

        Raises:
            UsageError: With the form a rule has.
        """
        decision, *rest = text.split() or [""]
        if decision not in ("allow", "deny") or not rest or not all("=" in part for part in rest[1:]):
            raise UsageError(f"rule {text!r} is not of the form 'allow|deny TOOL [ARGUMENT=PATTERN …]'")
        pairs = tuple((name, pattern) for name, _, pattern in (part.partition("=") for part in rest[1:]))
        return cls("allow" if decision == "allow" else "deny", rest[0], pairs)

    def covers(self, question: Confirmation) -> bool:
        plain = question.tool.rpartition(":")[2]
        if not any(fnmatchcase(name, self.tool) for name in (question.tool, plain)):
            return False
        return all(
            name in question.arguments and _matches(question.arguments[name], pattern)
            for name, pattern in self.arguments
        )

    def __str__(self) -> str:
        return " ".join((self.decision, self.tool, *(f"{name}={pattern}" for name, pattern in self.arguments)))


class Rules:
    """An approver that answers by the first rule that covers a call, and asks another where none does."""

    def __init__(self, rules: Iterable[Rule | str], otherwise: Approver | None = None) -> None:
        self._rules = tuple(rule if isinstance(rule, Rule) else Rule.parse(rule) for rule in rules)
        self._otherwise = otherwise or DeferAll()

    async def decide(self, question: Confirmation) -> Decision:
        for rule in self._rules:
            if rule.covers(question):
                return Allow(f"rule '{rule}'") if rule.decision == "allow" else Deny(f"rule '{rule}'")
        return await self._otherwise.decide(question)


def _matches(value: Any, pattern: str) -> bool:
    """`*` stays within a path segment, `**` does not; a path is read as the system would read it, without its `..`."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if "\0" in text:
        return False
    if "/" in text or text in (".", ".."):
        text = posixpath.normpath(text)
    return _glob(pattern).fullmatch(text) is not None


def _glob(pattern: str) -> re.Pattern[str]:
    pieces = re.split(r"(\*\*|\*|\?)", pattern)
    wild = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(wild.get(piece, re.escape(piece)) for piece in pieces), re.DOTALL)
