"""Tool names as a service takes them, and back.

A name that fits stays as it is. Another gets the nearest that fits; where that is
taken, or had to be cut, a hash of the whole name makes it different. What a name
becomes depends on the set of names, never on their order. Ids of calls can be
mapped in the same way.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache

from msgspec import Struct

_HASH = 8
"""Characters of the hash in a name: enough to tell tools apart, few enough to leave the name readable."""


_compiled = cache(re.compile)


def matches(pattern: str, name: str) -> bool:
    """True if the pattern matches the whole name."""
    return _compiled(pattern).fullmatch(name) is not None


class NameRule(Struct, frozen=True):
    """The tool names that a service accepts.

    The pattern fits a whole name. It must fit `_`, and go on fitting when letters, digits or `_` are added.
    """

    pattern: str
    longest: int

    def fits(self, name: str) -> bool:
        return len(name) <= self.longest and matches(self.pattern, name)


OPENAI_NAMES = NameRule(r"[A-Za-z0-9_-]+", 64)
ANTHROPIC_NAMES = NameRule(r"[A-Za-z0-9_-]+", 128)
GEMINI_NAMES = NameRule(r"[A-Za-z_][A-Za-z0-9_.:-]*", 64)  # 128 by now, but older endpoints still refuse more than 64
BEDROCK_NAMES = NameRule(r"[A-Za-z0-9_-]+", 64)
COHERE_NAMES = NameRule(r"[A-Za-z_][A-Za-z0-9_]*", 64)
OLLAMA_NAMES = NameRule(r"\S+", 256)


class NameMap(Struct, frozen=True):
    """Maps our tool names to those that the service accepts, one to one."""

    rule: NameRule
    wire: dict[str, str]
    ours: dict[str, str]

    @classmethod
    def of(cls, names: Iterable[str], rule: NameRule) -> NameMap:
        distinct = sorted(set(names))
        ours = {name: name for name in distinct if rule.fits(name)}
        odd = [name for name in distinct if name not in ours]
        near = {name: _near(name, rule) for name in odd}
        wanted = Counter(near.values())
        for name in odd:
            plain = near[name]
            free = rule.fits(plain) and plain not in ours and wanted[plain] == 1
            ours[plain if free else _marked(name, rule, ours)] = name
        return cls(rule, {name: wire for wire, name in ours.items()}, ours)

    def to_wire(self, name: str) -> str:
        """The name on the wire. A name that is not in the map, of a tool that is gone, never gets that of another."""
        if name in self.wire:
            return self.wire[name]
        plain = name if self.rule.fits(name) else _near(name, self.rule)
        if self.rule.fits(plain) and plain not in self.ours:
            return plain
        return _marked(name, self.rule, self.ours)

    def from_wire(self, name: str) -> str:
        """Our name. One that is not in the map is the model's own invention, and comes back unchanged."""
        return self.ours.get(name, name)


def _near(name: str, rule: NameRule) -> str:
    """The name with `_` for what does not fit; its length is not looked at beyond what is needed."""
    out = ""
    for character in name[: rule.longest + 1]:
        if matches(rule.pattern, out + character):
            out += character
        elif not out and matches(rule.pattern, "_" + character):
            out = "_" + character
        else:
            out += "_"
    return out or "_"


def _marked(name: str, rule: NameRule, taken: dict[str, str]) -> str:
    """The name, cut to make room, and a hash of the whole that nobody else has."""
    stem = _near(name, rule)[: rule.longest - _HASH - 1]
    salt = 0
    while True:
        seed = name.encode("utf-8", "surrogatepass") + (b"\0%d" % salt if salt else b"")
        wire = f"{stem}_{hashlib.sha256(seed).hexdigest()[:_HASH]}"
        if taken.get(wire, name) == name:
            return wire
        salt += 1
