"""Arguments that are almost right, read as what they plainly mean; only when the caller asks for it.

`repair_arguments` rewrites text token by token into JSON, which the strict reader then reads:
whatever it would refuse stays refused. `coerce_arguments` turns text into the number or boolean
that the schema wants. Both say everything they changed. Neither chooses between two
readings, and nothing is ever evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from handrail.core.jsontext import MAX_DIGITS, MAX_SIZE, JSONTextError, kind_of, parse, parse_object
from handrail.tools.schema.error_messages import path_text

BOM = "removed a byte order mark"
FENCE = "removed a code fence"
COMMA = "removed a trailing comma"
SINGLE_QUOTES = "replaced single quotes"
SMART_QUOTES = "replaced typographic quotes"
PYTHON = "read a Python literal (True, False, None) as JSON"
KEY = "quoted an unquoted key"
CLOSED = "added missing closing brackets"
BACKSLASH = "removed a backslash before a single quote"
LINE_BREAK = "escaped a line break or tab in a string"

_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r\n]++)
    | (?P<mark>[{}\[\],:])
    | (?P<double>"[^"\\]*+(?:\\.[^"\\]*+)*+")
    | (?P<single>'[^'\\]*+(?:\\.[^'\\]*+)*+')
    | (?P<smart>[“”][^“”\\]*+(?:\\.[^“”\\]*+)*+[“”]|[‘’][^‘’\\]*+(?:\\.[^‘’\\]*+)*+[‘’])
    | (?P<number>-?[0-9][0-9.eE+-]*+)
    | (?P<word>[A-Za-z_$][A-Za-z0-9_$-]*+)
    """,
    re.VERBOSE | re.DOTALL,
)
_FENCE_NAME = re.compile(r"[A-Za-z0-9_+-]*(?=[\s{])")
_ESCAPED = re.compile(r"\\.|[\"\n\r\t]", re.DOTALL)
_CONTROL = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_QUOTES = {"single": SINGLE_QUOTES, "smart": SMART_QUOTES}
_LITERALS = {"True": "true", "False": "false", "None": "null"}
_CLOSES = {"{": "}", "[": "]"}
_MAX_REFERENCES = 16


class _AmbiguousText(Exception):
    """The text can be read in more than one way."""


def repair_arguments(text: str) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """Read arguments leniently: the object, and a warning per kind of repair; None when in doubt.

    A text that is JSON is returned as it is, without warnings. A text that ends in the
    middle of a value or after a comma is in doubt: what is missing may have mattered.
    """
    if len(text) > MAX_SIZE:
        return None
    warnings: dict[str, None] = {}
    try:
        body = _unwrapped(text, warnings)
        strict = _strict(body)
        if strict is None:
            strict = parse_object(_Rewriter(body, warnings).json())
    except (_AmbiguousText, JSONTextError):
        return None
    return strict, tuple(warnings)


def _strict(text: str) -> dict[str, Any] | None:
    try:
        return parse_object(text)
    except JSONTextError:
        return None


def _unwrapped(text: str, warnings: dict[str, None]) -> str:
    if text.startswith("\ufeff"):
        text = text[1:]
        warnings[BOM] = None
    body = text.strip()
    if len(body) < 6 or not (body.startswith("```") and body.endswith("```")):
        return text
    name = _FENCE_NAME.match(body, 3)
    inner = body[name.end() : -3] if name else ""
    if not inner.strip():
        raise _AmbiguousText
    warnings[FENCE] = None
    return inner


class _Rewriter:
    """One pass over the tokens of a text, writing JSON."""

    __slots__ = ("_before", "_last", "_out", "_stack", "_text", "_warnings")

    def __init__(self, text: str, warnings: dict[str, None]) -> None:
        self._text = text
        self._warnings = warnings
        self._out: list[str] = []
        self._stack: list[str] = []
        self._last = ""
        """The last token but space: a mark, or the name of its kind."""
        self._before = ""

    def json(self) -> str:
        position = 0
        while position < len(self._text):
            token = _TOKEN.match(self._text, position)
            if token is None:
                raise _AmbiguousText
            position = token.end()
            if token.lastgroup != "space":
                self._take(token.lastgroup or "", token[0])
        self._close(ends_in_space=self._text[-1:].isspace())
        return " ".join(self._out)

    def _take(self, kind: str, token: str) -> None:
        if not self._stack and (self._last or token != "{"):
            raise _AmbiguousText
        if kind == "mark":
            self._mark(token)
        else:
            self._out.append(self._value(kind, token))
        self._before, self._last = self._last, token if kind == "mark" else kind

    def _mark(self, token: str) -> None:
        if token in "{[":
            self._stack.append(token)
        elif token in "}]":
            if _CLOSES[self._stack.pop()] != token:
                raise _AmbiguousText
            if self._last == ",":
                self._drop_comma()
        self._out.append(token)

    def _drop_comma(self) -> None:
        if self._before in ("", ",", "{", "["):
            raise _AmbiguousText
        self._out.pop()
        self._warnings[COMMA] = None

    def _value(self, kind: str, token: str) -> str:
        match kind:
            case "double" | "single" | "smart":
                if kind == "single" and "\\/" in token:
                    raise _AmbiguousText  # one character in JSON, two in Python
                if kind in _QUOTES:
                    self._warnings[_QUOTES[kind]] = None
                return f'"{_ESCAPED.sub(self._escape, token[1:-1])}"'
            case "word":
                return self._word(token)
        return token

    def _word(self, token: str) -> str:
        if self._stack[-1] == "{" and self._last in ("{", ","):
            self._warnings[KEY] = None
            return f'"{token}"'
        if token in _LITERALS:
            self._warnings[PYTHON] = None
        return _LITERALS.get(token, token)

    def _escape(self, found: re.Match[str]) -> str:
        match found[0]:
            case '"':
                return '\\"'
            case "\\'":
                self._warnings[BACKSLASH] = None
                return "'"
            case "\n" | "\r" | "\t" as control:
                self._warnings[LINE_BREAK] = None
                return _CONTROL[control]
        return found[0]

    def _close(self, *, ends_in_space: bool) -> None:
        if not self._stack:
            return
        # A number that touches the end may lack digits; after a mark but a bracket, something was to come.
        if self._last in ("{", "[", ",", ":") or (self._last == "number" and not ends_in_space):
            raise _AmbiguousText
        self._warnings[CLOSED] = None
        self._out += [_CLOSES[opened] for opened in reversed(self._stack)]


def coerce_arguments(arguments: dict[str, Any], schema: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Turn text into the integer, number or boolean that the schema wants there, with a warning for each.

    Text stays text where the schema allows text, and where it is not a JSON number or boolean.
    """
    warnings: list[str] = []
    return _coerced_object(arguments, schema, schema, [], warnings), tuple(warnings)


def _coerced(value: Any, schema: Any, root: Mapping[str, Any], path: list[str | int], warnings: list[str]) -> Any:
    schema = _followed(schema, root)
    match value:
        case str():
            read = _as_wanted(value, _types(schema, root))
            if read is not value:
                warnings.append(f"{path_text(path)}: read text as {kind_of(read)}")
            return read
        case dict():
            return _coerced_object(value, schema, root, path, warnings)
        case list() if isinstance(items := schema.get("items"), Mapping):
            return [_coerced(item, items, root, [*path, index], warnings) for index, item in enumerate(value)]
    return value


def _coerced_object(
    value: dict[str, Any],
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    path: list[str | int],
    warnings: list[str],
) -> dict[str, Any]:
    fields = _followed(schema, root).get("properties")
    if not isinstance(fields, Mapping):
        return value
    return {
        key: _coerced(item, fields[key], root, [*path, key], warnings) if key in fields else item
        for key, item in value.items()
    }


def _as_wanted(text: str, wanted: frozenset[str]) -> Any:
    if "string" in wanted or not wanted or len(text) > MAX_DIGITS:
        return text
    try:
        value = parse(_LITERALS.get(text, text))
    except JSONTextError:
        return text
    match value:
        case bool():
            return value if "boolean" in wanted else text
        case int():
            return value if wanted & {"integer", "number"} else text
        case float():
            return value if "number" in wanted else text
    return text


def _types(schema: Mapping[str, Any], root: Mapping[str, Any]) -> frozenset[str]:
    """The types a schema allows, as far as it says so plainly; empty where it does not."""
    match schema:
        case {"type": str(name)}:
            return frozenset({name})
        case {"type": [*names]}:
            return frozenset(name for name in names if isinstance(name, str))
        case {"anyOf": [*forms]} | {"oneOf": [*forms]}:
            found = [_followed(form, root).get("type") for form in forms]
            names = [name for name in found if isinstance(name, str)]
            return frozenset(names) if len(names) == len(found) else frozenset()
    return frozenset()


def _followed(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The subschema that a local reference stands for; nothing if it leads nowhere."""
    for _ in range(_MAX_REFERENCES):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        found: Any = root if reference.startswith("#/") else None
        for part in reference[2:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        schema = found
    return {}
