"""How a request can be known again: by the key that its client gave it, or by what official clients say of a retry."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from msgspec import Struct

from handrail.core.context import Principal
from handrail.node.gateways.request_parsing import refuse_field

_KEY = re.compile(r"[!-~]{1,255}")
_OURS = "x-handrail-"
_RETRY = "x-stainless-retry-count"
_PATIENCE = ("x-stainless-read-timeout", "x-stainless-timeout")
"""Seconds after which the client gives up, as those in Python and in JavaScript say it."""


class RequestIdentity(Struct, frozen=True, kw_only=True):
    """One request, as far as it matters to know it again."""

    whose: str
    wire: str
    same: bytes
    """Stands for all that was asked; of a request that cannot be known again, empty."""
    key: str | None = None
    attempt: int | None = None
    """How often the client tried before, where it says so."""
    patience: float | None = None

    @classmethod
    def of(cls, wire: str, whose: Principal, headers: Mapping[str, str], body: bytes) -> RequestIdentity:
        """A request of a principal, with the rights of the token that it came with: what somebody was told who may do
        more is not told to others of the same name.

        Raises:
            BusError: The key cannot be one.
        """
        key, attempt = _key(headers.get("idempotency-key")), _count(headers.get(_RETRY))
        return cls(
            whose=whose.id,
            wire=wire,
            same=b"" if key is None and attempt is None else _same(whose.scopes, headers, body),
            key=key,
            attempt=attempt,
            patience=next((_seconds(headers[name]) for name in _PATIENCE if name in headers), None),
        )

    @property
    def run(self) -> str | None:
        """The run of a key: the same one after a restart, so that its record tells what was done."""
        if self.key is None:
            return None
        named = "\0".join((self.whose, self.wire, self.key)).encode()
        return f"run_{hashlib.sha256(named).hexdigest()[:32]}"


def _same(rights: tuple[str, ...] | None, headers: Mapping[str, str], body: bytes) -> bytes:
    ours = sorted((name, value) for name, value in headers.items() if name.startswith(_OURS))
    found = hashlib.sha256(repr((ours, rights and sorted(set(rights)))).encode() + b"\0")
    found.update(body)
    return found.digest()


def _key(said: str | None) -> str | None:
    if said is None:
        return None
    quoted = len(said) > 2 and said[0] == said[-1] == '"'  # as the draft of the header has it
    key = said[1:-1] if quoted else said
    if not _KEY.fullmatch(key):
        refuse_field("Idempotency-Key", "expected 1 to 255 visible characters, such as a UUID")
    return key


def _count(said: str | None) -> int | None:
    return int(said) if said is not None and re.fullmatch(r"[0-9]{1,4}", said) else None


def _seconds(said: str) -> float | None:
    return float(said) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,20})?", said) else None
