"""Numbers, names and values of unknown origin as people may safely read them, on a terminal or on a page. Pure.

JSON is shown exactly: every number has the digits that it has (a browser would round some of them), and every letter
that shows nothing is written as an escape, as is one of another alphabet in the middle of a Latin word, where it looks
like one of those. What is read back is checked as strictly as what a model writes.
"""

from __future__ import annotations

import json
import math
import mimetypes
import re
import unicodedata
from typing import Any

import msgspec

from handrail.core.errors import UsageError
from handrail.core.jsontext import JSONTextError, kind_of, parse

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control, format (bidi, zero width), surrogate, private, unassigned, and line breaks by another name."""
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Letters and marks that show nothing."""
_LOOKED_AT = re.compile("[^ -~]")


def printable(text: str, keep: str = "") -> str:
    """The text with everything that could deceive a reader or steer a terminal written as an escape."""
    return _LOOKED_AT.sub(
        lambda found: found[0] if found[0] in keep or _is_plain(found[0]) else _escaped(found[0]), text
    )


def printable_lines(text: str) -> str:
    """Text of several lines, made safe line by line."""
    return printable(text.replace("\r\n", "\n"), keep="\n\t")


def _is_plain(letter: str) -> bool:
    return unicodedata.category(letter) not in _UNSEEN and not _BLANK.match(letter)


def _escaped(letter: str) -> str:
    code = ord(letter)
    match letter:
        case "\n" | "\r" | "\t":
            return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[letter]
        case _ if code < 0x100:
            return f"\\x{code:02x}"
        case _ if code < 0x10000:
            return f"\\u{code:04x}"
    return f"\\U{code:08x}"


_WRITABLE = 10**4_000
"""Python writes no integers of more than 4,300 digits as decimals."""


def short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def inline(value: Any, most: int = 60) -> str:
    """A JSON value in one short line; an object by its fields."""
    if isinstance(value, dict):
        return short(" ".join(f"{printable(key)}={_value(item, most)}" for key, item in value.items()), most)
    return _value(value, most)


def builtins(value: Any) -> Any:
    """The value in types that JSON has; NaN and the infinities by their names, integers without end in hex."""
    return _finite(msgspec.to_builtins(value, str_keys=True))


def _value(value: Any, most: int) -> str:
    # A long text is cut first: an argument may be a whole file.
    value = short(value, 4 * most) if isinstance(value, str) else value
    return printable(short(json.dumps(builtins(value), ensure_ascii=False), most))


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case int() if abs(value) >= _WRITABLE:
            return hex(value)
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
    return value


def duration_text(microseconds: int) -> str:
    seconds = microseconds / 1e6
    if seconds < 0.001:
        return f"{microseconds} µs"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def count_text(number: int, noun: str) -> str:
    """`1 entry`, `2 entries`."""
    if number != 1:
        noun = noun[:-1] + "ies" if noun.endswith("y") and noun not in ("day", "key") else noun + "s"
    return f"{number:,} {noun}"


_LONGEST = 100
_MOST_BYTES = 200
"""The longest name of a file, in UTF-8: file systems take 255 bytes, and a number may be added."""
_UNFIT = re.compile(r'[^\w .()+,=@-]+|[/\\:*?"<>|]+')
_ENDINGS = {"image/jpeg": ".jpg", "text/plain": ".txt", "image/webp": ".webp"}
"""Endings for which `mimetypes` gives an unusual one first, or on some platforms none."""


def safe_media_name(name: str, media_type: str, fallback: str = "file") -> str:
    """The last part of a name without anything that a file system or a shell could misread."""
    last = re.split(r"[/\\]", name)[-1]
    base = " ".join(_UNFIT.sub("_", last).split()).strip(". -")
    base = _short(base).lstrip(". -") or fallback
    kind = media_type.partition(";")[0].strip().lower()
    if "." in base.strip("."):
        return base
    return base + (_ENDINGS.get(kind) or mimetypes.guess_extension(kind) or "")


def _short(name: str) -> str:
    """The end of a name, which has its ending."""
    return name[-_LONGEST:].encode()[-_MOST_BYTES:].decode(errors="ignore")


_ESCAPABLE = re.compile("[^ -~\n]")
_FOREIGN = "\u0370-\u03ff\u0400-\u058f\u13a0-\u13ff"
"""Greek, Cyrillic, Armenian, Cherokee: alphabets with letters that look Latin."""
_MIXED = re.compile(f"[{_FOREIGN}]+(?=[A-Za-z])|(?<=[A-Za-z])(?<!\\\\[bfnrt])[{_FOREIGN}]+")


def exact_json(value: Any, indent: int | None = 2) -> str:
    """JSON that reads back as the same value, in which no letter can hide, deceive or steer a terminal."""
    written = json.dumps(value, indent=indent, ensure_ascii=False)
    if written.isascii():
        return written
    return _ESCAPABLE.sub(_visible, _MIXED.sub(lambda found: json.dumps(found[0])[1:-1], written))


def read_edited_object(text: str) -> dict[str, Any]:
    """What a person wrote.

    Raises:
        UsageError: It is no JSON object, names a key twice, or goes wrong elsewhere; it says where.
    """
    try:
        found = parse(text)
    except (JSONTextError, RecursionError) as error:
        raise UsageError(f"this is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f'write an object, as {{"name": "value"}}; this is {kind_of(found)}')
    return found


def _visible(found: re.Match[str]) -> str:
    letter = found[0]
    # A space that is none of the keyboard's is not printable, and looks like one.
    return letter if letter.isprintable() and printable(letter) == letter else json.dumps(letter)[1:-1]


_LARGEST = 2**53 - 1
"""The largest whole number that a browser does not round."""


def browser_safe(value: Any) -> Any:
    """A JSON value as every program can read it: half a surrogate is a question mark, and a number that a browser
    would round is a text."""
    match value:
        case str():
            return browser_safe_text(value)
        case int() if abs(value) > _LARGEST:
            return str(value)
        case float() if not math.isfinite(value):
            return str(value)
        case list() | tuple():
            return [browser_safe(item) for item in value]
        case dict():
            return {browser_safe_text(str(key)): browser_safe(item) for key, item in value.items()}
    return value


def browser_safe_text(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
