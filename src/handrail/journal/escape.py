"""Values that JSON has no spelling for, written so that they come back as they were.

A lone surrogate becomes `{"$text": hex}`, NaN and the infinities `{"$float": …}`, an
integer of thousands of digits `{"$int": hex}`, and a key that begins with `$` gets one
more `$`, so that no other object can be mistaken for these. Most values hold nothing
of the kind and are not touched.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from handrail.core.jsontext import is_unicode
from handrail.core.redact import MASK, Secret

_WRITABLE = 10**4_000
"""Python writes no integers of more than 4,300 digits as decimals."""


def decode(data: bytes) -> Any:
    value = msgspec.json.decode(data)
    return unescape(value) if b'"$' in data else value


def plain(value: Any) -> Any:
    """Any value as dict, list, text, number, bytes, bool and None. What is no data becomes its type, as `<Socket>`.

    Bytes stay bytes: their base64 may look like a secret, and with a mask in it could not be read back.
    """
    return msgspec.to_builtins(value, str_keys=True, builtin_types=(bytes,), enc_hook=_foreign)


def escape(value: Any) -> Any:
    """A plain value as one that JSON can say."""
    match value:
        case str():
            return value if is_unicode(value) else {"$text": _to_hex(value)}
        case float():
            return value if math.isfinite(value) else {"$float": str(value)}
        case int():
            return value if -_WRITABLE < value < _WRITABLE else {"$int": hex(value)}
        case dict():
            return {_escaped_key(key): escape(item) for key, item in value.items()}
        case list() | tuple():
            return [escape(item) for item in value]
    return value


def unescape(value: Any) -> Any:
    match value:
        case {"$text": str(code)} if len(value) == 1:
            return _from_hex(code)
        case {"$float": str(text)} if len(value) == 1:
            return float(text)
        case {"$int": str(text)} if len(value) == 1:
            return int(text, 16)
        case dict():
            return {_bare_key(key): unescape(item) for key, item in value.items()}
        case list():
            return [unescape(item) for item in value]
    return value


def column(text: str) -> str:
    """Text as SQLite can hold it: the same text unless it has a lone surrogate or looks as if it had been escaped."""
    return text if is_unicode(text) and not text.startswith("$text:") else "$text:" + _to_hex(text)


def uncolumn(text: str) -> str:
    """The text again. Anything else that was put in its place is left for the audit to find."""
    if isinstance(text, str) and text.startswith("$text:"):
        return _from_hex(text.removeprefix("$text:"))
    return text


def _escaped_key(key: str) -> str:
    if not is_unicode(key):
        return "$text:" + _to_hex(key)
    return "$" + key if key.startswith("$") else key


def _bare_key(key: str) -> str:
    return _from_hex(key.removeprefix("$text:")) if key.startswith("$text:") else key.removeprefix("$")


def _foreign(value: Any) -> str:
    if isinstance(value, Secret):
        return MASK
    return str(value) if isinstance(value, str) else f"<{type(value).__name__}>"


def _to_hex(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").hex()


def _from_hex(code: str) -> str:
    return bytes.fromhex(code).decode("utf-8", "surrogatepass")
