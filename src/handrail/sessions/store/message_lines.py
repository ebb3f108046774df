"""A message as one line of JSON, its long texts and its bytes put elsewhere by digest.

    {"$text": "<sha256>"}    a text of 1,024 bytes or more, or one that is not valid Unicode
    {"$bytes": "<sha256>"}   bytes
    {"$as": {...}}           an object that only looks like one of these three

The three are on disk and do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from handrail.core.errors import UsageError
from handrail.core.messages import Message
from handrail.sessions.store.content import ContentError

INLINE = 1024
"""Bytes from which a text is kept by its digest."""

Put = Callable[[bytes], str]
Get = Callable[[str], bytes]
_MARKS = ("$text", "$bytes", "$as")


def pack_message(message: Message, put: Put) -> bytes:
    """One line, without its end.

    Raises:
        UsageError: Something in it has no JSON form.
    """
    try:
        return msgspec.json.encode(_packed(msgspec.to_builtins(message, builtin_types=(bytes,)), put))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        kind = type(message).__name__
        raise UsageError(f"a {kind} cannot be saved: {error}; keep only JSON in arguments and results") from error


def unpack_message(line: bytes, get: Get) -> Message:
    """The message that a line of a conversation file holds.

    Raises:
        ContentError: The line is not a message, or what it refers to is gone.
    """
    try:
        value = _unpacked(msgspec.json.decode(line), get)
        return msgspec.convert(value, Message, builtin_types=(bytes,))  # type: ignore[no-any-return]  # a union is a type form
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ContentError(f"a line is not a message: {error}") from error


def digests(line: bytes) -> Iterator[str]:
    """Everything that a line refers to.

    Raises:
        ContentError: The line is not a message.
    """
    found: list[str] = []

    def note(digest: str) -> bytes:
        found.append(digest)
        return b""

    try:
        _unpacked(msgspec.json.decode(line), note)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ContentError(f"a line is not a message: {error}") from error
    return iter(found)


def _packed(value: Any, put: Put) -> Any:
    match value:
        case str():
            return _packed_text(value, put)
        case bytes():
            return {"$bytes": put(value)}
        case dict():
            packed = {key: _packed(item, put) for key, item in value.items()}
            return {"$as": packed} if _is_mark(value) else packed
        case list() | tuple():
            return [_packed(item, put) for item in value]
    return value


def _packed_text(text: str, put: Put) -> Any:
    if len(text) < INLINE and text.isascii():
        return text
    data = text.encode("utf-8", "surrogatepass")
    if len(data) < INLINE and data.decode("utf-8", "replace") == text:
        return text
    return {"$text": put(data)}


def _unpacked(value: Any, get: Get) -> Any:
    match value:
        case {"$text": str(digest)} if len(value) == 1:
            return get(digest).decode("utf-8", "surrogatepass")
        case {"$bytes": str(digest)} if len(value) == 1:
            return get(digest)
        case {"$as": dict(inner)} if len(value) == 1:
            return {key: _unpacked(item, get) for key, item in inner.items()}
        case dict():
            return {key: _unpacked(item, get) for key, item in value.items()}
        case list():
            return [_unpacked(item, get) for item in value]
    return value


def _is_mark(value: dict[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)) in _MARKS
