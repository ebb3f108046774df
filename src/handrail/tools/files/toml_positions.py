"""Where in a TOML text a key stands, which `tomllib` does not say.

It reads only texts that `tomllib` has already taken, so it checks nothing: it
walks over values and notes where each key and each element begins.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct

Path = tuple[str | int, ...]
"""Keys, and the indexes of elements: `("invokers", 1, "name")`."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_SCALAR = re.compile(r"[^,\]}#\r\n]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")'
    r"|'''.*?'{3,5}(?!')"
    r'|"(?:[^"\\]|\\.)*"'
    r"|'[^']*'",
    re.DOTALL,
)


class TomlPair(Struct, frozen=True):
    """A key and its value, as offsets into the text."""

    begin: int
    value: int
    end: int
    table: Path | None
    """What the header above it names; None inside an inline table."""


class TomlLayout(Struct, frozen=True):
    lines: dict[Path, int]
    """The line, from 1, of every key, table and element."""
    pairs: dict[Path, TomlPair]
    headers: dict[Path, int]
    """Where the header of a table ends."""


def line_of_key(text: str, path: Sequence[str | int]) -> int | None:
    """The line of a key, or of the nearest table around it that is there; None for the document itself."""
    lines = toml_layout(text).lines
    for end in range(len(path), 0, -1):
        if (line := lines.get(tuple(path[:end]))) is not None:
            return line
    return None


def toml_layout(text: str) -> TomlLayout:
    scanner = _TomlScanner(text)
    scanner.document()
    return TomlLayout(scanner.found, scanner.pairs, scanner.headers)


class _TomlScanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.found: dict[Path, int] = {}
        self.pairs: dict[Path, TomlPair] = {}
        self.headers: dict[Path, int] = {}
        self._lengths: dict[Path, int] = {}
        self._newlines = [match.start() for match in re.finditer("\n", text)]

    def document(self) -> None:
        table: Path = ()
        self._skip(_BLANK)
        while self.position < len(self.text):
            if self._take("[["):
                table = self._header("]]")
            elif self._take("["):
                table = self._header("]")
            else:
                self._pair(table, of=table)
            self._skip(_BLANK)

    def _header(self, closing: str) -> Path:
        line = self._line()
        keys = self._keys()
        self._take(closing)
        table: Path = ()
        for key in keys[:-1]:
            table = self._last(self._note((*table, key), line))
        table = self._note((*table, keys[-1]), line)
        if closing == "]]":
            self._lengths[table] = self._lengths.get(table, 0) + 1
        table = self._note(self._last(table), line)
        self.headers[table] = self.position
        return table

    def _last(self, table: Path) -> Path:
        """The last element of an array of tables, since that is what a header continues."""
        return (*table, self._lengths[table] - 1) if table in self._lengths else table

    def _pair(self, table: Path, *, of: Path | None = None) -> None:
        line, begin = self._line(), self.position
        for key in self._keys():
            table = self._note((*table, key), line)
        self._take("=")
        self._skip(_SPACE)
        value = self.position
        self._value(table)
        end = value + len(self.text[value : self.position].rstrip())
        self.pairs[table] = TomlPair(begin, value, end, of)

    def _keys(self) -> list[str]:
        keys = [self._key()]
        while self._take("."):
            keys.append(self._key())
        return keys

    def _key(self) -> str:
        self._skip(_SPACE)
        if self.text[self.position] in "\"'":
            written = self._skip(_STRING)
            key: str = tomllib.loads(f"key = {written}")["key"]
        else:
            key = self._skip(_BARE_KEY)
        self._skip(_SPACE)
        return key

    def _value(self, path: Path) -> None:
        match self.text[self.position]:
            case '"' | "'":
                self._skip(_STRING)
            case "[":
                self._array(path)
            case "{":
                self._inline_table(path)
            case _:
                self._skip(_SCALAR)

    def _array(self, path: Path) -> None:
        self.position += 1
        index = 0
        self._skip(_BLANK)
        while not self._take("]"):
            self._value(self._note((*path, index), self._line()))
            index += 1
            self._separator()

    def _inline_table(self, path: Path) -> None:
        self.position += 1
        self._skip(_BLANK)
        while not self._take("}"):
            self._pair(path)
            self._separator()

    def _separator(self) -> None:
        self._skip(_BLANK)
        self._take(",")
        self._skip(_BLANK)

    def _note(self, path: Path, line: int) -> Path:
        self.found.setdefault(path, line)
        return path

    def _line(self) -> int:
        return bisect_right(self._newlines, self.position - 1) + 1

    def _take(self, token: str) -> bool:
        if not self.text.startswith(token, self.position):
            return False
        self.position += len(token)
        return True

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.position)
        skipped = match.group() if match else ""
        self.position += len(skipped)
        return skipped
