"""The commands in a line for a shell, so that a rule for one of them does not cover the others.

Shells disagree about comments, and a line may be for any of them. So a comment that could hide a command in one of them
makes its part unclear, and a comment's own words count as commands where a separator stands in it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress

UNCLEAR = "$( "
"""Before a command that has another one inside or writes a file: no pattern that begins with a word covers it."""
_SEPARATORS = ";&|\n"
_INSIDE = ("$(", "`", "<(", ">(", ">", "<", "${", "\\\n")
_POWERSHELL = re.compile("[(){}\u2018-\u201f]|\\\\[;&|\n'\"]")
"""Runs a command inside, quotes, or ends a quote in PowerShell, and does something else in the other shells."""
_BEFORE = re.compile(
    r"(?:\s|!|\d*[<>]+[&|]?\s*[^\s<>]+\s|[A-Za-z_]\w*\+?=(?:'[^']*'|\"[^\"]*\"|[^\s'\"])*\s"
    r"|(?:then|do|else|elif|if|while|until|time|exec|command|builtin|nohup|eval|env|sudo)\s)+"
)
"""What may stand before a command and is not its name."""
_SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ksh"))
_DEEPEST = 4


def command_parts(line: str, tool: str = "") -> list[str]:
    """Each command of a line. One that may hold another one, or an open quote, is marked as unclear."""
    scan = _Scan(line)
    if scan.open_quote:
        return [UNCLEAR + line]
    found = list[str]()
    for part, odd, words in zip(scan.parts, scan.odd, scan.has_words, strict=True):
        part = part.strip()
        odd = odd or any(mark in part for mark in _INSIDE)
        odd = odd or (tool == "powershell" and _POWERSHELL.search(part) is not None)
        if part and (odd or words):
            found.append(UNCLEAR + part if odd else part)
    return found or [line]


def hidden_commands(line: str, depth: int = 0) -> Iterator[str]:
    """What a line may run besides the commands that it shows: in groups and substitutions, behind words such as `then`
    and `X=1`, and in the scripts of `sh -c`. It may name more than runs: it is for rules that deny or ask."""
    for piece in _Scan(line.replace("\\\n", "")).pieces:
        bare = _BEFORE.sub("", piece, count=1) if _BEFORE.match(piece) else piece
        name, *rest = bare.split(maxsplit=1) or [""]
        bare = " ".join((re.sub(r"[\\'\"]", "", name), *rest)).strip()
        if bare:
            yield bare
        if depth < _DEEPEST and (script := _script(bare)) is not None:
            yield from hidden_commands(script, depth + 1)


def _script(command: str) -> str | None:
    """The script of `sh -c SCRIPT`."""
    words = command.split()
    if not words or words[0].rpartition("/")[2] not in _SHELLS:
        return None
    with suppress(ValueError):
        words = shlex.split(command)
    for at, word in enumerate(words[1:-1], 1):
        if re.fullmatch(r"-[a-z]*c[a-z]*", word):
            return words[at + 1]
    return None


class _Scan:
    """A line as shells read it, letter by letter."""

    def __init__(self, line: str) -> None:
        self.parts: list[str] = []
        """What stands between separators."""
        self.odd: list[bool] = []
        """Whether something in a part is read differently by different shells, or may run a command."""
        self.has_words: list[bool] = []
        """Whether a part is more than a comment."""
        self.pieces: list[str] = []
        """What stands between separators, and between what opens and closes a group or a substitution."""
        self.open_quote = False
        self._read(line)

    def _read(self, line: str) -> None:
        start = begun = at = 0
        quote, odd, words, comment = "", False, False, False

        def end(upto: int) -> None:
            nonlocal start, odd, words
            self.parts.append(line[start:upto])
            self.odd.append(odd)
            self.has_words.append(words)
            start, odd, words = upto + 1, False, False

        def cut(upto: int) -> None:
            nonlocal begun
            self.pieces.append(line[begun:upto])
            begun = upto + 1

        while at < len(line):
            letter, after = line[at], line[at + 1 : at + 2]
            if comment:
                odd = odd or letter in "'\"\\`"
                if letter in _SEPARATORS:
                    cut(at)
                    end(at)
                    comment = letter != "\n"
                    words = comment  # in a shell for which this is no comment, a command follows
            elif quote == "'":
                quote = "" if letter == "'" else quote
            elif letter == "\\":
                words = True
                at += 1
            elif quote == "$'":
                quote = "" if letter == "'" else quote
            elif letter == "`" or (letter == "(" and line[at - 1 : at] == "$"):
                words = True
                cut(at)
            elif quote:
                quote = "" if letter == quote else quote
            elif letter == "$" and after == "'":
                quote, odd, words = "$'", True, True
                at += 1
            elif letter in "'\"":
                quote, words = letter, True
            elif letter in "(){}":
                odd = odd or letter == "("  # a group, a function, a list of words, or a command of zsh
                words = True
                cut(at)
            elif letter in _SEPARATORS:
                cut(at)
                end(at)
            elif letter == "#" and (at == start or line[at - 1] in " \t()<>"):
                comment = True
            elif not letter.isspace():
                words = True
            at += 1
        cut(len(line))
        end(len(line))
        self.open_quote = quote != ""
