"""Answers: JSON, and errors that all have one form, whoever says them: the bus, a route or the guard before it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from handrail.core.errors import BusError
from handrail.http.request_guard import Send
from handrail.node.bus.wire_codes import WIRE

_encode = msgspec.json.Encoder().encode
_CODES = {
    403: "unauthorized",
    404: "not_found",
    408: "timeout",
    500: "internal_error",
    503: "capacity_exceeded",
}
"""What the bus would say for a status that HTTP gave; of the others it is the caller's mistake."""
PLAIN = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON value. One that has no JSON form is our own mistake, and said so."""
    with contextlib.suppress(UnicodeEncodeError, TypeError, ValueError):
        return _json(_encode(value), status, headers)
    return error_response(BusError("internal_error", "the answer has no JSON form"))


def error_response(error: BusError, status: int | None = None, headers: Mapping[str, str] | None = None) -> Response:
    """The body of an error, with the status of its code."""
    code = error.code if error.code in WIRE else "internal_error"
    found = WIRE[code].http if status is None else status
    fields = dict(headers or {})
    if error.retry_after_ms is not None:
        fields["retry-after"] = str(math.ceil(error.retry_after_ms / 1000))
    if found == 401:
        fields["www-authenticate"] = "Bearer"
    return _json(error_body_of(error, code), found, fields)


def error_body_of(error: BusError, code: str | None = None) -> bytes:
    said = {**error.to_dict(), "error": code or error.code}
    with contextlib.suppress(UnicodeEncodeError, TypeError, ValueError):
        return _encode(said)
    return _encode(BusError("internal_error", "the error has no JSON form", outcome=error.outcome).to_dict())


def bus_error_of(status: int, why: str) -> BusError:
    """What HTTP refuses, as the bus would say it."""
    return BusError(_CODES.get(status, "bad_request"), why)


async def send_error(send: Send, status: int, why: str, *headers: tuple[bytes, bytes]) -> None:
    """Sends an error, like `error_response`, for what stands before the routes."""
    body = error_body_of(bus_error_of(status, why))
    length = (b"content-length", str(len(body)).encode())
    start = [(b"content-type", b"application/json"), length, *PLAIN, *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


def _json(body: bytes, status: int, headers: Mapping[str, str] | None) -> Response:
    response = Response(body, status, media_type="application/json")
    response.raw_headers.extend(PLAIN)
    response.headers.update(headers or {})
    return response
