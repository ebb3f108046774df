"""How a request comes in: that its body is JSON, the body itself, of a bounded length, and how it is known again.

A request is known again by the key that its client gave it, or by what official clients say of a retry.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request

from handrail.core.context import Principal
from handrail.core.errors import BusError
from handrail.node.gateways.request_parsing import refuse_field
from handrail.node.server.content_negotiation import JSON, require_json

P = ParamSpec("P")
T = TypeVar("T")

_SHORT = 256 * 1024
"""Bytes of a body that is read in no time."""


@contextmanager
def token_errors_as_invalid() -> Iterator[None]:
    """A token that cannot be read is, to clients of these APIs, a key that is not good."""
    try:
        yield
    except BusError as error:
        if error.code != "bad_request":
            raise
        raise BusError("token_invalid", error.message, outcome="forbidden") from error


def check_content_type(request: Request) -> None:
    """A page of another origin can send `text/plain` without being asked for leave, and JSON it cannot.

    Raises:
        BusError: The body is not JSON, by what the request says of it (status 415).
    """
    try:
        require_json(request.headers, JSON)
    except HTTPException as error:
        raise BusError("bad_request", error.detail, status=error.status_code) from error


async def parse_in_thread_if_large(size: int, read: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """A long history, or pictures in it, would hold the loop up."""
    if size < _SHORT:
        return read(*given, **named)
    return await asyncio.to_thread(read, *given, **named)


async def read_bounded_body(request: Request, most: int) -> bytes:
    """The whole body of a request.

    Raises:
        BusError: It is longer than `most` bytes.
    """
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise BusError("bad_request", f"the request is longer than {most} bytes", status=413)
        pieces.append(piece)
    return b"".join(pieces)


_KEY = re.compile(r"[!-~]{1,255}")
_OURS = "x-handrail-"
_RETRY = "x-stainless-retry-count"
_PATIENCE = ("x-stainless-read-timeout", "x-stainless-timeout")
"""Seconds after which the client gives up, as those in Python and in JavaScript say it."""


class RequestIdentity(Struct, frozen=True, kw_only=True):
    """One request, as far as it takes to recognise it."""

    whose: str
    wire: str
    same: bytes
    """Stands for all that was asked; of a request that cannot be known again, empty."""
    key: str | None = None
    attempt: int | None = None
    """The number of earlier tries, if the client says it."""
    patience: float | None = None

    @classmethod
    def of(cls, wire: str, whose: Principal, headers: Mapping[str, str], body: bytes) -> RequestIdentity:
        """A request of a principal, with the rights of the token that it came with: what somebody was told who may do
        more is not told to others of the same name.

        Raises:
            BusError: The key cannot be one.
        """
        key, retry = _key(headers.get("idempotency-key")), headers.get(_RETRY, "")
        attempt = int(retry) if re.fullmatch(r"[0-9]{1,4}", retry) else None
        patience = next((headers[name] for name in _PATIENCE if name in headers), "")
        return cls(
            whose=whose.id,
            wire=wire,
            same=b"" if key is None and attempt is None else _same(whose.scopes, headers, body),
            key=key,
            attempt=attempt,
            patience=float(patience) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,20})?", patience) else None,
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
