"""JSON text to values and no further: strict, bounded, and exact about what was wrong.

msgspec reads. What it lets through and we do not is checked here: duplicate keys
(it keeps the last), deep nesting and endless integers. Nothing is mended; that is
`handrail.execute.repair`, which is asked for by name.
"""

from __future__ import annotations

import copy
import json
import math
import re
from typing import Any

import msgspec

MAX_SIZE = 10 * 1024 * 1024
MAX_DEPTH = 100
MAX_DIGITS = 400

_LARGEST = 10**MAX_DIGITS
"""An integer that Python will not write as decimals would pass every check of its size."""
_BITS = _LARGEST.bit_length()
"""An integer of fewer bits is smaller in any case."""
_TOO_LONG = f"an integer has more than {MAX_DIGITS} digits; send it as text"
_LONG_NUMBER = b"0" * (MAX_DIGITS + 1)
_DIGITS_ALIKE = bytes(ord("0") if ord("0") <= each <= ord("9") else ord(" ") for each in range(256))
_AT_BYTE = re.compile(r"^(?:JSON is malformed: )?(.*?) \(byte (\d+)\)$")
_TOKEN = re.compile(r'[{}\[\]]|(?P<key>"[^"\\]*+(?:\\.[^"\\]*+)*+")\s*:|"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


def _number(text: str) -> float:
    """A fraction as Python reads it: msgspec takes 8 µs for 1.5e300, and a text may hold a million of those."""
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number is out of range")
    return value


_decode = msgspec.json.Decoder(float_hook=_number).decode


class JSONTextError(ValueError):
    """The text is not JSON that we take.

    `position` is where reading stopped, in characters of a `str` and bytes of `bytes`, if that is known.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message if position is None else f"{message} at position {position}")
        self.message = message
        self.position = position


def parse(text: str | bytes, *, max_size: int = MAX_SIZE) -> Any:
    """Read one JSON value. Integers stay exact, whatever their size.

    Raises:
        JSONTextError: It is not JSON, names a key twice, or is beyond a limit of size, depth or digits.
    """
    if len(text) > max_size:
        raise JSONTextError(f"the text is longer than {max_size}; send less")
    value = _decoded(text)
    colons = text.count(":") if isinstance(text, str) else text.count(b":")
    # A lost pair leaves a colon without one. So does a colon in a string: then look closely.
    if _pairs(value, 1) != colons:
        _refuse_duplicates(text)
    return value


def parse_lightly(text: bytes, *, max_values: int | None = None, max_depth: int = MAX_DEPTH) -> Any:
    """Read one JSON value in which a key that occurs twice does no harm: the last one stands.

    The limits of depth and digits hold as in `parse`. `max_values` is how many values there may be inside of it, for
    text of strangers: a thousand empty objects are two thousand bytes of text, and sixty-four thousand of memory.

    Raises:
        JSONTextError: As `parse`, but for size and double keys.
    """
    if max_values is not None and _marks(text) > max_values:
        _refuse_many(text, max_values)
    value = _decoded(text)
    if text.count(b"{") + text.count(b"[") > MAX_DEPTH or _has_long_number(text):
        _pairs(value, 1 + MAX_DEPTH - max_depth)
    return value


def parse_object(text: str | bytes, *, max_size: int = MAX_SIZE) -> dict[str, Any]:
    """Read the arguments of a call. No text at all, and `null`, are how models spell "no arguments".

    Raises:
        JSONTextError: As `parse`, or the value is not an object.
    """
    if not text or text.isspace():
        return {}
    value = parse(text, max_size=max_size)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise JSONTextError(f"expected a JSON object, got {kind_of(value)}")
    return value


def object_or_text(arguments: dict[str, Any] | str) -> dict[str, Any] | str:
    """The arguments of a call as an object; text that is none stays as it is, for the executor to refuse."""
    if isinstance(arguments, dict):
        return arguments
    try:
        return parse_object(arguments)
    except JSONTextError:
        return arguments


def kind_of(value: Any) -> str:
    """The JSON name of a value's type."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case dict():
            return "object"
    return type(value).__name__


def why_not_json(value: Any, max_depth: int = MAX_DEPTH) -> str | None:
    """Why a Python value has no JSON form that we take, or None if it has one. Tuples count as arrays."""
    kind = type(value)
    if kind is str:
        return None if value.isascii() else _odd_text(value)
    if kind is int:
        return None if -_LARGEST < value < _LARGEST else _TOO_LONG
    if kind is bool or value is None:
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{value} is not a JSON number"
    if isinstance(value, (dict, list, tuple)):
        if max_depth < 1:
            return "it is nested too deeply"
        return _odd_object(value, max_depth) if isinstance(value, dict) else _odd_items(value, max_depth)
    if isinstance(value, str):
        return _odd_text(value)
    if isinstance(value, int):
        return None if -_LARGEST < value < _LARGEST else _TOO_LONG
    return f"{type(value).__name__} is not a JSON type"


def copy_json(value: Any) -> Any:
    """A copy of a JSON value that shares nothing with it that can be changed: a quarter of what `deepcopy` takes."""
    kind = type(value)
    if kind is dict:
        return {key: item if type(item) in _UNCHANGING else copy_json(item) for key, item in value.items()}
    if kind is list:
        return [item if type(item) in _UNCHANGING else copy_json(item) for item in value]
    return value if kind in _UNCHANGING else copy.deepcopy(value)


_UNCHANGING = frozenset({str, int, float, bool, type(None)})


def _odd_object(value: dict[Any, Any], max_depth: int) -> str | None:
    for key, item in value.items():
        if not isinstance(key, str):
            return f"an object has text keys, not {type(key).__name__}"
        if not key.isascii() and (why := _odd_text(key)) is not None:
            return why
        # Most arguments are short text and numbers: they are looked at here, without another call.
        kind = type(item)
        if (item.isascii() if kind is str else kind is int and item.bit_length() < _BITS) or item is None:
            continue
        if (why := why_not_json(item, max_depth - 1)) is not None:
            return why
    return None


def _odd_items(value: list[Any] | tuple[Any, ...], max_depth: int) -> str | None:
    for item in value:
        if (why := why_not_json(item, max_depth - 1)) is not None:
            return why
    return None


def _odd_text(text: str) -> str | None:
    return None if is_unicode(text) else "its text holds half of a surrogate pair"


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded: it holds no half of a surrogate pair."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
    return True


def without_surrogates(text: str) -> str:
    """The same text, with halves of surrogate pairs as escapes: every log, wire and disk can hold it."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def first_non_json(value: Any, where: str) -> str | None:
    """The place and type of the first thing in a value that is not JSON; None if it all is."""
    match value:
        case None | bool() | int():
            return None
        case str():
            return None if is_unicode(value) else f"{where} is text that is not Unicode"
        case float():
            return None if math.isfinite(value) else f"{where} is {value}"
        case list() | tuple():
            found = (first_non_json(item, f"{where}[{index}]") for index, item in enumerate(value))
        case dict():
            if (odd := next((key for key in value if not isinstance(key, str)), None)) is not None:
                return f"{where} has the key {odd!r}, which is not text"
            found = (first_non_json(item, f"{where}.{key}") for key, item in value.items())
        case _:
            return f"{where} is a {type(value).__name__}"
    return next(filter(None, found), None)


def _decoded(text: str | bytes) -> Any:
    try:
        return _decode(text)
    except RecursionError:
        raise JSONTextError(f"nested deeper than {MAX_DEPTH}; flatten it") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _explained(error, text) from None


def _has_long_number(text: bytes) -> bool:
    """Whether a run of digits is too long, in linear time: a regular expression would scan each run again and again."""
    return len(text) > MAX_DIGITS and _LONG_NUMBER in text.translate(_DIGITS_ALIKE)


def _pairs(value: Any, depth: int) -> int:
    """The number of key-value pairs in a value, at any depth. A value that is too deep or too long is refused."""
    kind = type(value)
    if kind is dict or kind is list:
        if depth > MAX_DEPTH:
            raise JSONTextError(f"nested deeper than {MAX_DEPTH}; flatten it")
        count, items = (len(value), value.values()) if kind is dict else (0, value)
        for item in items:
            inner = type(item)
            if inner is dict or inner is list or inner is int:
                count += _pairs(item, depth + 1)
        return count
    if kind is int and not -_LARGEST < value < _LARGEST:
        raise JSONTextError(_TOO_LONG)
    return 0


def _marks(text: bytes) -> int:
    """An upper bound on the number of values inside a value: each follows one of these marks."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _refuse_many(text: bytes, most: int) -> None:
    """Counts the values exactly, since the marks may stand in strings, and refuses too many."""
    strings = (text.count(b'"') - text.count(b'\\"')) // 2
    if strings > 2 * most or _marks(_STRING.sub(b"", text)) > most:
        raise JSONTextError(f"it has more than {most:,} values; send less, or send it as text")


def _refuse_duplicates(text: str | bytes) -> None:
    read = text if isinstance(text, str) else text.decode()
    try:
        json.loads(read, object_pairs_hook=_distinct)
    except JSONTextError as error:
        at = _second_key(read)
        raise JSONTextError(error.message, at if isinstance(text, str) else len(read[:at].encode())) from None


def _distinct(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise JSONTextError(f"the key {key!r} occurs twice in one object; keep one")
        seen.add(key)


def _second_key(text: str) -> int | None:
    """The offset of the first key that occurs twice in its object. The text is JSON."""
    within: list[set[str]] = [set()]
    for found in _TOKEN.finditer(text):
        match found[0][0]:
            case "{" | "[":
                within.append(set())
            case "}" | "]":
                within.pop()
            case _ if found["key"] is not None:
                key = json.loads(found["key"])
                if key in within[-1]:
                    return found.start()
                within[-1].add(key)
    return None


def _explained(error: Exception, text: str | bytes) -> JSONTextError:
    """What msgspec found, in words that say where."""
    if isinstance(error, UnicodeError):
        return _bad_unicode(text)
    raw = text.encode() if isinstance(text, str) else text
    if raw.startswith(b"\xef\xbb\xbf"):
        return JSONTextError("the text begins with a byte order mark; leave it out", 0)
    message = str(error)
    if "out of range" in message:
        return JSONTextError(f"a number is too large (more than {MAX_DIGITS} digits, or beyond 1.8e308)")
    found = _AT_BYTE.match(message)
    if found is None:
        return JSONTextError("the text ends too early, or in half of a surrogate pair", len(text))
    at = int(found[2]) - (found[1] == "trailing characters")  # msgspec has read one of them already
    if isinstance(text, str):
        at = len(raw[:at].decode(errors="ignore"))
    return JSONTextError(f"not JSON: {found[1]}", at)


def _bad_unicode(text: str | bytes) -> JSONTextError:
    try:
        text.encode() if isinstance(text, str) else text.decode()
    except (UnicodeEncodeError, UnicodeDecodeError) as error:
        return JSONTextError("the text is not valid Unicode", error.start)
    return JSONTextError("the text is not valid Unicode")
