"""A context in words for a model. Nothing that the context says stands there, but names and keys, in quotes."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from handrail.rlm.contexts.text_library import MOST

_TEXT = {
    "read(start, length)": f"a str of these characters, at most {MOST:,} at once",
    "lines(first, count)": "a list of lines; the first line is line 0",
    "search(pattern, limit=20, around=80, start=0)": 'a list of {"at", "line", "text"}: where a regular expression of '
    "Python's re, MULTILINE, matches, and what stands around",
    "count(text)": "how often a text occurs",
    "chunks(size, overlap=0)": "a list of [start, end], to read it piece by piece",
    "size": "its number of characters",
    "line_count": "its number of lines",
}
_FILES = {
    "files": 'a list of {"name", "size"}',
    "open(name)": "one of them",
    'search(pattern, limit=20, around=80, names="*")': 'a list of {"name", "at", "line", "text"} over all of them that '
    "can be read, or over those whose names fit the wildcards",
}
_BROKEN = " Some bytes of it are not UTF-8; they are shown as U+FFFD."
_WHY = {
    "hidden": "hidden",
    "binary": "not text",
    "link": "links",
    "special": "neither files nor directories",
    "unreadable": "unreadable",
    "pdf": "PDF, which nothing installed here reads",
    "too many": "beyond the most that are listed",
}


def of_str(variable: str, what: str, size: int, lines: int, is_broken: bool) -> str:
    said = f"`{variable}` is {what}, as a str of {size:,} characters in {lines:,} lines."
    return said + _BROKEN if is_broken else said


def of_value(variable: str, value: Any, size: int) -> str:
    """A value that is in the REPL as it is."""
    match value:
        case list():
            return f"`{variable}` is a list of {len(value):,} items ({_types(value)}), {size:,} bytes as JSON."
        case dict():
            keys = ", ".join(quoted(key) for key in list(value)[:20])
            more = f" and {len(value) - 20:,} more" if len(value) > 20 else ""
            return f"`{variable}` is a dict of {len(value):,} keys: {keys}{more}; {size:,} bytes as JSON."
    return f"`{variable}` is of type {type(value).__name__}."


def of_text(variable: str, what: str, size: int, lines: int, is_broken: bool) -> str:
    said = (
        f"`{variable}` is {what}: {size:,} characters in {lines:,} lines. It is not a str. It is held outside of the "
        f"REPL, and you read from it what you need:\n{_table(variable, _TEXT)}\n"
        "Positions count characters from 0."
    )
    return said + _BROKEN if is_broken else said


def of_files(variable: str, what: str, sizes: list[int], unit: str, left_out: Counter[str]) -> str:
    said = (
        f"`{variable}` is {what}: {len(sizes):,} texts of {sum(sizes):,} {unit}, held outside of the REPL. "
        f"You read from them what you need:\n{_table(variable, _FILES)}\n"
        f"What `text = {variable}.open(name)` gives you is not a str. It has:\n{_table('text', _TEXT)}\n"
        f"The sizes in `{variable}.files` are in {unit}. Positions count characters from 0."
    )
    return said + left_out_of(left_out)


def left_out_of(counted: Counter[str]) -> str:
    if not counted:
        return ""
    return f" Left out: {', '.join(f'{number:,} {_WHY[why]}' for why, number in sorted(counted.items()))}."


def quoted(name: str) -> str:
    """A name as a literal in ASCII: it can end no line and turn no writing around."""
    return json.dumps(name if len(name) <= 120 else name[:119] + "…")


def variable_described(said: str) -> str:
    """The variable that a description is of, out of a text that begins with one."""
    found = re.match(r"`([^\W\d]\w*)` is ", said)
    return found[1] if found else "context"


def file_described(said: str) -> str:
    """The name of the one file that a description is of, or nothing."""
    found = re.match(r'`\w+` is the text of the file ("(?:[^"\\]|\\.)*")', said)
    return str(json.loads(found[1])) if found else ""


def _table(variable: str, rows: dict[str, str]) -> str:
    return "\n".join(f"  {variable}.{call}: {what}" for call, what in rows.items())


def _types(items: list[Any]) -> str:
    counted = Counter(type(item).__name__ for item in items)
    return ", ".join(f"{number:,} {name}" for name, number in counted.most_common()) or "empty"
