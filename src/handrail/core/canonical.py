"""Canonical JSON (RFC 8785) and digests of it: one spelling per value, so that equal calls have equal hashes.

RFC 8785 has no spelling for integers beyond 2^53, NaN, infinities or lone
surrogates. They are written as one-key objects (`{"$int": "…"}`), and a key that
begins with `$` is written with one more, so that no two values share a spelling.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec
import rfc8785

from handrail.core.jsontext import is_unicode

_LARGEST = 2**53
_sorted = msgspec.json.Encoder(order="sorted")


def canonical_json(value: Any) -> bytes:
    """The one spelling of a JSON value.

    Raises:
        TypeError: The value is not made of dict, list, tuple, str, int, float, bool and None.
    """
    if _is_canonical(value):
        try:
            return _sorted.encode(value)
        except UnicodeEncodeError:
            return rfc8785.dumps(_tagged(value))
    return rfc8785.dumps(_tagged(value))


def digest(value: Any) -> str:
    """`sha256:` and the hex digest of the canonical form."""
    return digest_bytes(canonical_json(value))


def digest_bytes(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _is_canonical(value: Any) -> bool:
    """Whether msgspec's sorted JSON already is the canonical form: no floats, ASCII keys, small integers."""
    kind = type(value)
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str or not key.isascii() or key[:1] == "$":
                return False
            # Most items are text and small numbers: that is seen here, without another call.
            kind = type(item)
            if kind is str or (kind is int and -_LARGEST < item < _LARGEST):
                continue
            if not _is_canonical(item):
                return False
        return True
    if kind is int:
        return bool(-_LARGEST < value < _LARGEST)
    if kind is list:
        return all(map(_is_canonical, value))
    return kind is str or kind is bool or value is None


def _tagged(value: Any) -> Any:
    match value:
        case bool() | None:
            return value
        case str():
            return value if is_unicode(value) else {"$text": value.encode("utf-16-be", "surrogatepass").hex()}
        case int():
            # In hex, because Python writes no decimals of more than 4,300 digits.
            return int(value) if -_LARGEST < value < _LARGEST else {"$int": hex(value)}
        case float():
            return value if math.isfinite(value) else {"$float": str(value)}
        case list() | tuple():
            return [_tagged(item) for item in value]
        case dict():
            return {_tagged_key(key): _tagged(item) for key, item in value.items()}
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _tagged_key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a JSON object has text keys, not {type(key).__name__}")
    if not is_unicode(key):
        return "$text:" + key.encode("utf-16-be", "surrogatepass").hex()
    return "$" + key if key.startswith("$") else key
