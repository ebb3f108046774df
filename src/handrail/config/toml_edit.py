"""Change one value in the text of a file, and nothing else: comments, order and spelling stay as they are.

The text is cut and pasted where the key stands, or could stand. What comes out is read again, and taken only if it says
exactly what was wanted: so a form of writing that this does not know is refused, never damaged.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

from handrail.core.errors import UsageError
from handrail.tools.files.toml_positions import TomlLayout, TomlPair, toml_layout

Value = bool | int | float | str | list[str]
Path = tuple[str, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRINGS = re.compile(r'"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'|"(?:[^"\\]|\\.)*"|\'[^\']*\'', re.DOTALL)
_INDENT = re.compile(r"\[[ \t]*\n([ \t]*)")
_HEAD = re.compile(r"(?:[ \t]*#[^\n]*\n)+(?=[ \t]*\n)")
"""A comment on the whole file, which stays first."""


def set_toml_value(text: str, path: Path, value: Value | None) -> str:
    """The text with this value at this path; None is without any.

    Raises:
        UsageError: It cannot be changed there without changing more.
        ValueError: The text is not TOML.
    """
    before = tomllib.loads(text)
    wanted = _with(before, path, value)
    if wanted is None:
        return text
    ways = _ways(_TomlLines(text, toml_layout(text)), path, value)
    found = next((each for each in ways if _says(each, wanted)), None)
    if found is None:
        raise UsageError(
            f"{'.'.join(path)} cannot be changed by its field, because of how the text is written; change it there"
        )
    return found


def toml_literal(value: Any) -> str:
    """A value as TOML in one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list():
            return f"[{', '.join(map(toml_literal, value))}]"
        case dict():
            return f"{{ {', '.join(f'{toml_key(key)} = {toml_literal(item)}' for key, item in value.items())} }}"
        case int() | float():
            return repr(value)
    raise TypeError(f"{value!r} has no place in a file of ours")


def toml_key(key: str) -> str:
    return key if _BARE.fullmatch(key) else toml_literal(key)


class _TomlLines:
    def __init__(self, text: str, layout: TomlLayout) -> None:
        self.text = text
        self.layout = layout

    def put(self, begin: int, end: int, new: str) -> str:
        return self.text[:begin] + new + self.text[end:]

    def below(self, offset: int, line: str) -> str:
        """The text with one more line after the one that this offset is in."""
        end = self.text.find("\n", offset)
        return self.put(end + 1, end + 1, f"{line}\n") if end >= 0 else f"{self.text}\n{line}\n"

    def line(self, pair: TomlPair) -> tuple[int, int]:
        """The lines that a pair fills, with what is said of it behind it."""
        begin = self.text.rfind("\n", 0, pair.begin) + 1
        end = self.text.find("\n", pair.end)
        return begin, len(self.text) if end < 0 else end + 1


def _ways(text: _TomlLines, path: Path, value: Value | None) -> Iterator[str]:
    pair = text.layout.pairs.get(path)
    if value is None:
        yield from () if pair is None else _without(text, pair)
    elif pair is not None:
        yield from _replaced(text, pair, value)
    else:
        for way in (_in_table, _in_line, _insert_beside_pair, _at_the_end):
            yield from way(text, path[:-1], path[-1], toml_literal(value))


def _without(text: _TomlLines, pair: TomlPair) -> Iterator[str]:
    if pair.table is not None:
        yield text.put(*text.line(pair), "")
        return
    after = re.compile(r"\s*,\s*").match(text.text, pair.end)
    if after:
        yield text.put(pair.begin, after.end(), "")
    begin = text.text[: pair.begin].rstrip().removesuffix(",").rstrip()
    yield text.put(len(begin), pair.end, "")


def _replaced(text: _TomlLines, pair: TomlPair, value: Value) -> Iterator[str]:
    old = text.text[pair.value : pair.end]
    if "#" in _STRINGS.sub("", old):
        return  # there are comments between its items, and nobody knows which of them still hold
    indent = _INDENT.match(old)
    if isinstance(value, list) and value and indent:
        lines = "".join(f"{indent[1]}{toml_literal(each)},\n" for each in value)
        last = old[old.rfind("\n") + 1 : -1]
        yield text.put(pair.value, pair.end, f"[\n{lines}{last}]")
    yield text.put(pair.value, pair.end, toml_literal(value))


def _in_table(text: _TomlLines, table: Path, key: str, value: str) -> Iterator[str]:
    """After the last pair under its header."""
    line = f"{toml_key(key)} = {value}"
    ends = [pair.end for pair in text.layout.pairs.values() if pair.table == table]
    if ends:
        yield text.below(max(ends), line)
    elif table in text.layout.headers:
        yield text.below(text.layout.headers[table], line)
    elif not table:
        head = _HEAD.match(text.text)
        at = head.end() if head else 0
        yield text.put(at, at, f"\n{line}\n" if head else f"{line}\n\n" if text.text.strip() else f"{line}\n")


def _in_line(text: _TomlLines, table: Path, key: str, value: str) -> Iterator[str]:
    pair = text.layout.pairs.get(table)
    if pair is not None:
        inside = text.text[pair.value + 1 : pair.end - 1].strip()
        both = ", ".join(filter(None, (inside, f"{toml_key(key)} = {value}")))
        yield text.put(pair.value, pair.end, f"{{ {both} }}")


def _insert_beside_pair(text: _TomlLines, table: Path, key: str, value: str) -> Iterator[str]:
    """After the last pair that names the table before a dot."""
    near = [
        (pair.end, pair.table)
        for path, pair in text.layout.pairs.items()
        if pair.table is not None and path[: len(table)] == table and len(pair.table) < len(table)
    ]
    if table and near:
        end, of = max(near)
        yield text.below(end, f"{_dotted((*table[len(of) :], key))} = {value}")


def _at_the_end(text: _TomlLines, table: Path, key: str, value: str) -> Iterator[str]:
    begun = text.text.rstrip()
    yield (f"{begun}\n\n" if begun else "") + f"[{_dotted(table)}]\n{toml_key(key)} = {value}\n"


def _dotted(path: Sequence[Any]) -> str:
    return ".".join(map(toml_key, path))


# ── what it has to say afterwards ────────────────────────────────────────────────────


def _with(data: dict[str, Any], path: Path, value: Value | None) -> dict[str, Any] | None:
    """The same but for this; None if there is nothing to do."""
    key, *rest = path
    inner = data.get(key)
    if not rest:
        if value is None:
            return {name: each for name, each in data.items() if name != key} if key in data else None
        return None if key in data and _same(inner, value) else {**data, key: value}
    if inner is None and value is None:
        return None
    if not isinstance(inner, dict | None):
        raise UsageError(f"{key} is not a table in the text; change it there")
    made = _with(inner or {}, tuple(rest), value)
    return None if made is None else {**data, key: made}


def _says(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return _same(tomllib.loads(text), wanted)
    except (ValueError, RecursionError):
        return False


def _same(one: Any, other: Any) -> bool:
    """Equal, and of the same kind: `true` is not `1`, and `1` is not `1.0`."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(each, other[key]) for key, each in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return repr(one) == repr(other)
