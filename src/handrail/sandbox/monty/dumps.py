"""A dump that only we can have made. Monty says to load no others, and does load one with a flipped bit."""

from __future__ import annotations

import hashlib
import hmac

import msgspec
from msgspec import Struct

from handrail.core.errors import UsageError

_MAGIC = b"handrail monty 1\n"
_MAC = hashlib.sha256().digest_size


class MontyState(Struct, frozen=True, kw_only=True):
    """An interpreter between two cells."""

    heap: bytes
    """The heap as Monty writes it."""
    version: str
    """The version of Monty: another one may read the heap differently."""
    feeds: int
    """The number of pieces of code that it was fed, ours included."""
    cells: dict[int, int]
    """Which of them were cells, and which ones."""
    number: int
    """The number of the last cell."""
    names: dict[str, str]


def seal_dump(state: MontyState, key: bytes) -> bytes:
    body = msgspec.msgpack.encode(state)
    return _MAGIC + _mac(key, body) + body


def unseal_dump(sealed: bytes, key: bytes) -> MontyState:
    """The state in a dump.

    Raises:
        UsageError: It is not a dump, or not one that was made with this key and left alone.
    """
    start = len(_MAGIC) + _MAC
    if not sealed.startswith(_MAGIC):
        raise UsageError("this is not a dump of an interpreter in Monty; give load() what dump() returned")
    if not hmac.compare_digest(sealed[len(_MAGIC) : start], _mac(key, sealed[start:])):
        raise UsageError("this dump was changed, or made with another key, and is not loaded; run the cells again")
    try:
        return msgspec.msgpack.decode(sealed[start:], type=MontyState)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UsageError(
            "this dump is of another version of handrail, and is not loaded; run the cells again"
        ) from error


def _mac(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, _MAGIC + body, "sha256")
