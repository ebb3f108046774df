"""A table of a TOML file with the place it stands at, so that every mistake names file, key and line.

Reading is typed: each method gives the value of one key in one type, or refuses it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.errors import ConfigError
from handrail.core.jsontext import why_not_json
from handrail.tools.files.toml_positions import line_of_key

T = TypeVar("T")

_KINDS: dict[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    dict: "a table",
    list: "a list",
}
LARGEST = 1024 * 1024
"""Bytes of a file: reading TOML takes half a second for each million."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TOML_LINE = re.compile(r"^(?P<why>.*) \(at (?:line (?P<line>\d+), column \d+|end of document)\)$", re.DOTALL)


class TomlKeyPath(Struct, frozen=True):
    """A key of a document: what an error points at."""

    file: str
    text: str | None = None
    """The document. None for descriptors that are no file."""
    folder: Path | None = None
    path: tuple[str | int, ...] = ()

    def __repr__(self) -> str:
        return f"TomlKeyPath({self.file!r}, {self.path!r})"  # the document would be too much

    def at(self, *path: str | int) -> TomlKeyPath:
        return replace(self, path=(*self.path, *path))

    @property
    def line(self) -> int | None:
        return None if self.text is None else line_of_key(self.text, self.path)

    @property
    def key(self) -> str | None:
        return "".join(map(_step, self.path)).removeprefix(".") or None

    def error(self, why: str) -> ConfigError:
        return ConfigError(why, file=self.file, key=self.key, line=self.line, path=self.path)

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _BARE.fullmatch(step) else f".{step!r}"


class TomlTable(Struct, frozen=True):
    """Keys and values, and where each key came from if that is not the table's own place."""

    values: Mapping[str, Any]
    place: TomlKeyPath
    origins: Mapping[str, TomlKeyPath] = {}

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def at(self, key: str) -> TomlKeyPath:
        return self.origins.get(key) or self.place.at(key)

    def error(self, key: str, why: str) -> ConfigError:
        return self.at(key).error(why)

    def only(self, known: Iterable[str]) -> TomlTable:
        """Refuse a key that is not known: it would be a promise not kept."""
        known = tuple(known)
        for key in self.values:
            if key not in known:
                import difflib  # most people spell it right

                near = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"the keys here are {', '.join(known)}"
                raise self.error(key, f"there is no such key; {hint}")
        return self

    def over(self, below: TomlTable) -> TomlTable:
        """These keys, and those of the other table where this one has none."""
        origins = {key: below.at(key) for key in below.values} | {key: self.at(key) for key in self.values}
        return TomlTable({**below.values, **self.values}, self.place, origins)

    def without(self, key: str) -> TomlTable:
        return replace(self, values={name: value for name, value in self.values.items() if name != key})

    def text(self, key: str) -> str | None:
        return self._get(key, str)

    def flag(self, key: str) -> bool | None:
        return self._get(key, bool)

    def count(self, key: str, least: int) -> int | None:
        value = self._get(key, int)
        if value is not None and value < least:
            raise self.error(key, f"must be {least} or more, not {value}")
        return value

    def seconds(self, key: str) -> float | None:
        value = self._get(key, float)
        if value is not None and not 0 < value < float("inf"):
            raise self.error(key, f"must be more than 0 seconds, not {value:g}")
        return value

    def choice(self, key: str, words: tuple[str, ...]) -> str | None:
        value = self._get(key, str)
        if value is not None and value not in words:
            raise self.error(key, f"must be one of {', '.join(map(repr, words))}, not {value!r}")
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        values = self._get(key, list)
        for index, value in enumerate(values or ()):
            if not isinstance(value, str):
                raise self.at(key).at(index).error(f"must be text, not {_named(value)}")
        return None if values is None else tuple(values)

    def table(self, key: str) -> TomlTable | None:
        value = self._get(key, dict)
        return None if value is None else TomlTable(value, self.at(key))

    def tables(self, key: str) -> dict[str, TomlTable]:
        """The tables in a table, by their names; none if it is not there."""
        outer = self.table(key) or TomlTable({}, self.place)
        return {name: table for name in outer.values if (table := outer.table(name)) is not None}

    def json(self, key: str) -> dict[str, Any] | None:
        """A table that must also be JSON, as a schema is."""
        value: dict[str, Any] | None = self._get(key, dict)
        if value is not None and (why := why_not_json(value)) is not None:
            raise self.error(key, f"it cannot be written as JSON: {why}")
        return value

    def _get(self, key: str, kind: type[T]) -> T | None:
        value = self.values.get(key)
        if key not in self.values:
            return None
        if kind is float and type(value) is int:
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(key, f"must be {_KINDS[kind]}, not {_named(value)}")
        return value


def _named(value: Any) -> str:
    return _KINDS.get(type(value), type(value).__name__)


def read_toml_file(path: Path) -> TomlTable:
    """The top table of a TOML file.

    Raises:
        ConfigError: There is no such file, or it is not TOML.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(path)) from error
    return toml_table_of(data, path)


def toml_table_of(data: bytes, path: Path) -> TomlTable:
    """The top table of what a TOML file holds, or would hold.

    Raises:
        ConfigError: It is not TOML.
    """
    if len(data) > LARGEST:
        raise ConfigError(f"is larger than {LARGEST // 1024} KiB; split it, or check what it is", file=str(path))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError("is not UTF-8; save it as UTF-8", file=str(path), line=line) from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        why, at = _explained(error, text)
        raise ConfigError(f"is not TOML: {why}", file=str(path), line=at) from error
    except ValueError as error:
        raise ConfigError("has a number with too many digits; write a smaller one", file=str(path)) from error
    except RecursionError as error:
        raise ConfigError("is nested too deeply; flatten it", file=str(path)) from error
    return TomlTable(values, TomlKeyPath(str(path), text, path.parent))


def _explained(error: tomllib.TOMLDecodeError, text: str) -> tuple[str, int | None]:
    said = _TOML_LINE.match(str(error))
    if said is None:
        return str(error), None
    return said["why"], int(said["line"]) if said["line"] else text.count("\n") + 1
