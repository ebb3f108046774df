"""The commands in a line for a shell, so that a rule for one of them does not cover the others."""

from __future__ import annotations

UNCLEAR = "$( "
"""Before a command that has another one inside or writes a file: no pattern that begins with a word covers it."""
_SEPARATORS = ";&|\n"
_INSIDE = ("$(", "`", "<(", ">(", ">", "<", "${", "\\\n")


def command_parts(line: str) -> list[str]:
    """Each command of a line. One that holds a substitution, a redirection or an open quote is marked as unclear."""
    parts, start, quote, at = [], 0, "", 0
    while at < len(line):
        letter = line[at]
        if quote == "'":
            quote = "" if letter == "'" else quote
        elif letter == "\\":
            at += 1
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in _SEPARATORS:
            parts.append(line[start:at])
            start = at + 1
        at += 1
    parts.append(line[start:])
    found = [part.strip() for part in parts if part.strip()]
    if quote:
        return [UNCLEAR + line]
    return [UNCLEAR + part if any(mark in part for mark in _INSIDE) else part for part in found] or [line]
