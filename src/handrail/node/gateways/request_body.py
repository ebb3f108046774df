"""How a request comes in: whose key it has, that its body is JSON, and the body itself, of a bounded length."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request

from handrail.core.errors import BusError
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
    """
    Raises:
        BusError: It is longer than that.
    """
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise BusError("bad_request", f"the request is longer than {most} bytes", status=413)
        pieces.append(piece)
    return b"".join(pieces)
