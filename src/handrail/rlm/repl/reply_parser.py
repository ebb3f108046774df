"""What a reply of the root model asks for: code to run, a final answer, or neither. It reads, and runs nothing.

Code is in fences of the language `repl`, or, where a reply has none of those, of `python` or `py`: models that were
told `repl` write it all the same. Fences are of backticks or tildes and may be indented. A fence line inside a
triple-quoted string of the code belongs to the string.

`FINAL(words)` and `FINAL_VAR(name)` count on lines of their own outside any fence; the last one counts. Inside code
they are calls like any other, and whoever runs the code sees them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

LANGUAGES = ("repl",)
ALSO = ("python", "py", "python3")
"""Taken for `repl` in a reply that has no block of that language."""

_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})(?P<info>[^\n]*)")
_FINAL = re.compile(r"^[ \t]*(?P<what>FINAL|FINAL_VAR)[ \t]*\(", re.MULTILINE)
_READ = 20
"""The number of finals at the end of a reply that are looked at. Only the last counts, and reading each may take
long."""
_NAME = re.compile(r"[^\W\d]\w*")
_QUOTES = ('"""', "'''", '"', "'")
_MARK = re.compile("|".join((*_QUOTES, "#")))
_ENDS = {quote: re.compile(rf"\\.|{quote}", re.DOTALL) for quote in _QUOTES}
_AHEAD = 1_000_000
"""Characters of a reply that may be read in vain for the ends of blocks. Beyond them, the first line that could end a
block does: or a reply of many blocks with open strings would take minutes to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReply:
    """A reply, read."""

    blocks: tuple[str, ...] = ()
    final: str | None = None
    """The words of `FINAL(…)`."""
    final_var: str | None = None
    """The name in `FINAL_VAR(…)`."""
    cut: bool = False
    """Whether the reply ends inside a block of code. That block is not among the `blocks`: it may lack anything."""
    unclosed: bool = False
    """Whether there is a `FINAL(` without its end."""


@dataclass(slots=True)
class _Fence:
    """A fenced part, as far as it was read."""

    language: str
    mark: str
    indent: str
    lines: list[str] = field(default_factory=list)
    ended: bool = False

    @property
    def code(self) -> str:
        return "\n".join(_dedented(line, self.indent) for line in self.lines)


def read_reply(text: str) -> ParsedReply:
    """What a model wrote, as something that can be done."""
    fences, prose = _parts(text.replace("\r\n", "\n").split("\n"))
    languages = LANGUAGES if any(each.language in LANGUAGES for each in fences) else ALSO
    code = [each for each in fences if each.language in languages]
    blocks = tuple(each.code for each in code if each.ended and each.code.strip())
    final, final_var, unclosed = _final(prose)
    return ParsedReply(
        blocks=blocks, final=final, final_var=final_var, cut=any(not each.ended for each in code), unclosed=unclosed
    )


def is_only_code(text: str) -> bool:
    """Whether nothing stands outside of fences."""
    fences, prose = _parts(text.replace("\r\n", "\n").split("\n"))
    return bool(fences) and not prose.strip()


# ── fences ───────────────────────────────────────────────────────────────────────────


def _parts(lines: list[str]) -> tuple[list[_Fence], str]:
    """The fenced parts, and everything outside them; a fence leaves an empty line there."""
    fences: list[_Fence] = []
    prose: list[str] = []
    at, ahead = 0, _AHEAD
    while at < len(lines):
        opened = _opened(lines[at])
        if opened is None:
            prose.append(lines[at])
            at += 1
            continue
        end, ahead = _end(lines, at + 1, opened, ahead)
        opened.lines = lines[at + 1 : end]
        opened.ended = end < len(lines)
        fences.append(opened)
        prose.append("")
        at = end + 1
    return fences, "\n".join(prose)


def _opened(line: str) -> _Fence | None:
    match = _FENCE.fullmatch(line)
    if match is None or (match["mark"][0] == "`" and "`" in match["info"]):
        return None
    words = match["info"].split()
    return _Fence(words[0].lower() if words else "", match["mark"], match["indent"])


def _end(lines: list[str], start: int, fence: _Fence, ahead: int) -> tuple[int, int]:
    """The line that ends it: the first that could and is in no string of the code; else the first that could.

    Beside it, how many characters may still be read `ahead` in vain.
    """
    first, left = None, ahead
    quotes = _Quotes()
    is_code = fence.language in (*LANGUAGES, *ALSO)
    for at in range(start, len(lines)):
        match = _FENCE.fullmatch(lines[at])
        closes = match is not None and not match["info"].strip() and match["mark"].startswith(fence.mark)
        if closes and not (is_code and quotes.open):
            return at, ahead
        if closes and first is None:
            first = at
        if first is not None:
            left -= len(lines[at]) + 1
            if left < 0:
                break
        if is_code:
            quotes.read(lines[at])
    return len(lines) if first is None else first, left


class _Quotes:
    """Follows Python line by line, just enough to know whether a triple-quoted string is open."""

    def __init__(self) -> None:
        self.open = ""

    def read(self, line: str) -> None:
        at = 0
        while at < len(line):
            if self.open:
                at = _string_end(line, at, self.open)
                if at < 0:
                    return
                self.open = ""
            elif (mark := _MARK.search(line, at)) is None or mark[0] == "#":
                return
            elif len(quote := mark[0]) == 3:
                self.open, at = quote, mark.end()
            else:
                end = _string_end(line, mark.end(), quote)
                at = len(line) if end < 0 else end


def _quote_at(text: str, at: int) -> str | None:
    return next((quote for quote in _QUOTES if text.startswith(quote, at)), None)


def _string_end(text: str, at: int, quote: str) -> int:
    """Behind the quote that ends a string, or -1."""
    for match in _ENDS[quote].finditer(text, at):
        if match[0] == quote:
            return match.end()
    return -1


def _dedented(line: str, indent: str) -> str:
    """The code without the indent of its fence."""
    at = 0
    while at < len(indent) and line[at : at + 1] in (" ", "\t"):
        at += 1
    return line[at:]


# ── final answers ────────────────────────────────────────────────────────────────────


def _final(prose: str) -> tuple[str | None, str | None, bool]:
    final = final_var = None
    unclosed = False
    for what, inside in _finals(prose):
        if inside is None:
            unclosed = True
        elif what == "FINAL" and inside:
            final, final_var = inside, None
        elif what == "FINAL_VAR" and _NAME.fullmatch(inside):
            final, final_var = None, inside
    return final, final_var, unclosed and final is None and final_var is None


def _finals(prose: str) -> Iterator[tuple[str, str | None]]:
    """Each `FINAL(…)` and `FINAL_VAR(…)` on lines of its own, and what stands in it."""
    behind = 0
    for match in list(_FINAL.finditer(prose))[-_READ:]:
        if match.start() < behind:  # it is in the words of the one before
            continue
        end = _closing(prose, match.end())
        if end < 0:
            yield match["what"], None
        elif not _rest_of_line(prose, end + 1).strip():
            yield match["what"], _unquoted(prose[match.end() : end].strip())
            behind = end


def _closing(text: str, start: int) -> int:
    """The position of the parenthesis that closes one just opened, or -1.

    Words in quotes may hold any parentheses. An apostrophe in plain words is not a quote.
    """
    inside = len(text) - len(text[start:].lstrip())
    if (quote := _quote_at(text, inside)) is not None:
        end = _string_end(text, inside + len(quote), quote)
        behind = text[end:].lstrip() if end >= 0 else ""
        if behind.startswith(")"):
            return len(text) - len(behind)
    depth = 1
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if not depth:
            return at
    return -1


def _rest_of_line(text: str, at: int) -> str:
    return text[at:].split("\n", 1)[0]


def _unquoted(words: str) -> str:
    """The text without the quotes that wrap all of it, if they do."""
    quote = _quote_at(words, 0)
    if quote is None or _string_end(words, len(quote), quote) != len(words):
        return words
    try:
        value = ast.literal_eval(words)
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # as a line end inside plain quotes
        return words[len(quote) : -len(quote)].strip()
    return value.strip() if isinstance(value, str) else words
