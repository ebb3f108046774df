"""Standing rules: what a person decided in advance, in a file.

    allow io:read_file
    allow io:write_file path=docs/**
    deny  *:delete_*
    ask   mail:send to=*@example.org
    allow mail:send@sha256:4f1c0a2b77d3
    allow Bash command='git status**'

The first rule that covers a call decides it; `ask` has a person asked whatever the rules below it say.

A path of a tool that resolves its paths, as those of `io` do, is compared by the `Location` that it leads to, so that
two spellings of one path are one place:

    keep/**          in the first root
    notes:keep/**    in the root `notes`
    *:keep/**        in every root
    /srv/data/**     by its whole path
    **               everywhere

The text of any other argument is read as a path, too: `./docs//a` fits `docs/**`. A text with a `..` in it, or with
spaces, is allowed only if it also fits as it is written: it may be an address or a command, where `..` takes nothing
back.

Where nobody can tell what an argument names (a path that climbs out with `..`, a NUL), an `allow` does not cover it and
a `deny` does. A rule with the digest of a definition, or its first digits, is for the tool as it was then: once its
words change, an `allow` no longer covers it, and a person is asked.
"""

from __future__ import annotations

import posixpath
import re
import shlex
import unicodedata
from collections.abc import Container, Iterable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.canonical import canonical_json
from handrail.core.confirmation import Allow, Confirmation, Decision, Deny, Location
from handrail.core.errors import UsageError

if TYPE_CHECKING:
    from handrail.execute.approvers import AnyApprover

_DIGEST = re.compile(r"sha256:[0-9a-f]{12,64}")


class Rule(Struct, frozen=True):
    """A decision, the tools it is for, and what their arguments must look like."""

    decision: Literal["allow", "deny", "ask"]
    tool: str
    arguments: tuple[tuple[str, str], ...] = ()
    definition: str = ""
    """The beginning of a digest: only for the tool as it was defined then."""

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Read one rule as people write it.

        Raises:
            UsageError: With the form a rule has.
        """
        decision, *rest = _words(text) or [""]
        if decision not in ("allow", "deny", "ask") or not rest or not all(part.find("=") > 0 for part in rest[1:]):
            raise UsageError(f"rule {text!r} is not of the form 'allow|deny|ask TOOL [ARGUMENT=PATTERN …]'")
        pairs = tuple((name, pattern) for name, _, pattern in (part.partition("=") for part in rest[1:]))
        tool, pinned, definition = rest[0].partition("@")
        if pinned and not _DIGEST.fullmatch(definition):
            raise UsageError(f"rule {text!r}: after '@' stands a digest, as in 'allow {tool}@sha256:4f1c0a2b77d3'")
        if pinned and decision != "allow":
            what = "a deny" if decision == "deny" else "an ask"
            raise UsageError(f"rule {text!r}: {what} is for every definition of a tool; leave out '@{definition}'")
        return cls("allow" if decision == "allow" else "deny" if decision == "deny" else "ask", tool, pairs, definition)

    def covers(self, question: Confirmation, commands: Container[str] = ()) -> bool:
        """Whether it is for this call. `commands` names the arguments that are known to be no paths."""
        return self.fits(question, commands) and question.definition.startswith(self.definition)

    def fits(self, question: Confirmation, commands: Container[str] = ()) -> bool:
        """Whether it is for this call, whatever the definition of the tool."""
        plain = question.tool.rpartition(":")[2]
        if not any(fnmatchcase(name, self.tool) for name in (question.tool, plain)):
            return False
        return all(self._argument_fits(question, name, pattern, commands) for name, pattern in self.arguments)

    def _argument_fits(self, question: Confirmation, name: str, pattern: str, commands: Container[str]) -> bool:
        """A path goes by where it leads. `path` stands for every path of a tool that calls its own otherwise."""
        locations = question.locations
        if name == "path" and name not in question.arguments and locations:
            fits = [self._place_fits(location, pattern) for location in locations.values()]
            return all(fits) if self.decision == "allow" else any(fits)
        if name not in question.arguments:
            return False
        if name in locations:
            return self._place_fits(locations[name], pattern)
        value = question.arguments[name]
        if name in commands and isinstance(value, str):
            return self._is_written(value, pattern)
        return self._fits(value, pattern)

    def _is_written(self, text: str, pattern: str) -> bool:
        """Whether a text that is no path fits as it is written; for a `deny` also if it fits when read as a path."""
        if "\0" in text:
            return self.decision != "allow"
        if glob_of(pattern).fullmatch(text) is not None:
            return True
        return self.decision != "allow" and _matches(text, pattern) is True

    def _place_fits(self, location: Location | None, pattern: str) -> bool:
        if location is None:
            return self.decision != "allow" or pattern == ANYWHERE
        return (pattern_covers if self.decision == "allow" else pattern_reaches)(pattern, location)

    def _fits(self, value: Any, pattern: str) -> bool:
        """Whether a list fits: to allow it, every item must fit; to deny it or to ask about it, one item is enough."""
        if isinstance(value, list | tuple):
            fits = [self._fits(item, pattern) for item in value]
            return bool(fits) and all(fits) if self.decision == "allow" else any(fits)
        found = _matches(value, pattern)
        if isinstance(value, str) and _may_be_no_path(value) and found is not None:
            # What it says between two slashes is not gone because `..` follows: `https://evil/../good`, `rm a/../b`.
            as_written = glob_of(pattern).fullmatch(value) is not None
            return found and as_written if self.decision == "allow" else found or as_written
        return self.decision != "allow" if found is None else found

    def __str__(self) -> str:
        tool = f"{self.tool}@{self.definition}" if self.definition else self.tool
        special = any(letter.isspace() or letter in "'\"" for _, pattern in self.arguments for letter in pattern)
        written = shlex.quote if special else str
        return " ".join((self.decision, tool, *(f"{name}={written(pattern)}" for name, pattern in self.arguments)))


class Rules:
    """An approver that applies the first rule that matches a call, and asks another approver if none does."""

    def __init__(self, rules: Iterable[Rule | str], otherwise: AnyApprover | None = None) -> None:
        from handrail.execute.approvers import as_approver
        from handrail.execute.confirm import DeferAll

        self._rules = tuple(rule if isinstance(rule, Rule) else Rule.parse(rule) for rule in rules)
        self._otherwise = as_approver(otherwise) or DeferAll()

    def with_otherwise(self, otherwise: AnyApprover) -> Rules:
        """The same rules, and another who is asked where none of them decides."""
        return Rules(self._rules, otherwise)

    async def decide(self, question: Confirmation) -> Decision:
        for rule in self._rules:
            if rule.decision == "allow" and question.why:
                continue  # what was said in advance was not said of this
            if rule.decision == "ask" and rule.covers(question):
                question = replace(question, why="; ".join(filter(None, (question.why, f"rule '{rule}'"))))
                break
            if rule.covers(question):
                return Allow(f"rule '{rule}'") if rule.decision == "allow" else Deny(f"rule '{rule}'")
            if rule.fits(question):
                now = question.definition[: len(rule.definition)]
                question = replace(question, why=f"rule '{rule}' is for another definition of it; this one is {now}")
        return await self._otherwise.decide(question)


def _words(text: str) -> list[str]:
    """The words of a rule. A pattern with spaces in it stands in quotes; a lone quote is an ordinary letter."""
    if '"' in text or "'" in text:
        try:
            return shlex.split(text)
        except ValueError:
            return text.split()
    return text.split()


def _matches(value: Any, pattern: str) -> bool | None:
    """`*` stays within a path segment, `**` does not; a path is read as the system would read it, without its `..`.

    None if nobody can tell what the value names.
    """
    written = value if isinstance(value, str) else canonical_json(value).decode()
    if "\0" in written:
        return None
    text, pattern = _normal(written), _normal(pattern)
    if pattern != "**" and _climbs(text) != _climbs(pattern):
        return None if _climbs(text) else False
    found = glob_of(pattern).fullmatch(text) is not None
    return None if found and text == "." and pattern not in (".", "**") else found  # `*` is in a folder, not the folder


def _may_be_no_path(text: str) -> bool:
    """Whether a text must also be compared as it is written: reading it as a path drops what `..` takes back, and to a
    command or an address that is a part like any other."""
    return "/" in text and (".." in text.split("/") or any(map(str.isspace, text)))


def _normal(path: str) -> str:
    """Paths, patterns and URLs alike, so that one place has one spelling."""
    if "/" not in path and path not in (".", ".."):
        return path
    return _normal_path(path)


def _normal_path(path: str) -> str:
    return re.sub("^/+", "/", posixpath.normpath(path)) if path else "."


def _climbs(path: str) -> int:
    """The number of folders that a path goes up at its beginning."""
    steps = path.split("/")
    return next((count for count, step in enumerate(steps) if step != ".."), len(steps))


_WILD = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
ANYWHERE = "**"


def pattern_covers(pattern: str, location: Location) -> bool:
    """Whether the place fits the pattern."""
    if pattern == ANYWHERE:
        return True
    return any(glob_of(wanted).fullmatch(path) is not None for wanted, path in _pairs(pattern, location))


def pattern_reaches(pattern: str, location: Location) -> bool:
    """Whether the place, or something below it that the call touches too, may fit the pattern. Names that look the
    same, as é in one letter and in two, are the same here: this is what a `deny` goes by."""
    if pattern_covers(pattern, location):
        return True
    pairs = [(_composed(wanted), _composed(path)) for wanted, path in _pairs(pattern, location)]
    if any(glob_of(wanted).fullmatch(path) is not None for wanted, path in pairs):
        return True
    return location.tree and any(_may_hold(path, wanted) for wanted, path in pairs)


@lru_cache(maxsize=1024)
def glob_of(pattern: str) -> re.Pattern[str]:
    """`*` and `?` stay within a path segment, `**` does not."""
    pieces = re.split(r"(\*\*|\*|\?)", pattern)
    return re.compile("".join(_WILD.get(piece, re.escape(piece)) for piece in pieces), re.DOTALL)


def _pairs(pattern: str, location: Location) -> Iterator[tuple[str, str]]:
    """What the pattern wants and what the place is called, in each form that both have."""
    if pattern.startswith("/"):
        yield _normal_path(pattern), location.absolute
        return
    root, colon, inside = pattern.partition(":")
    for name in location.names:
        its_root, _, path = name.partition(":")
        if colon and glob_of(root).fullmatch(its_root):
            yield _normal_path(inside), path
        if its_root == location.first:  # also a pattern with a colon, which may stand in the name of a file
            yield _normal_path(pattern), path


def _composed(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _may_hold(folder: str, pattern: str) -> bool:
    """Whether something below a folder may fit the pattern: the folder fits its beginning, name by name."""
    wanted = pattern.split("/")
    for depth, name in enumerate([] if folder == "." else folder.split("/")):
        if depth == len(wanted):
            return False
        if "**" in wanted[depth]:
            return True
        if glob_of(wanted[depth]).fullmatch(name) is None:
            return False
    return True
