"""The socket protocol of `rlms`: four bytes of length (big-endian), JSON, and the same back. Here, the side that asks.

A connection is made for each request. What comes back is an `LMResponse` or an error that says whose fault it is: a
peer that is gone, that breaks off, that says too much or something else altogether is never an empty answer.

An address is a host and a port, or the path of a Unix socket, which `rlms` does not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from handrail.core.errors import ModelError, ModelUnavailable, ProtocolError, RequestRefused, UsageError
from handrail.core.framing import FRAME_LIMIT, FrameError, FrameSplitter, length_prefixed
from handrail.core.jsontext import JSONTextError, kind_of, parse_lightly
from handrail.core.timeouts import time_limit
from handrail.rlm.values import LMRequest, LMResponse
from handrail.sync import Portal

Address = tuple[str, int] | str | Path

TIMEOUT = 300.0
"""Seconds until an answer must be there, as upstream."""
CHUNK = 256 * 1024
"""Bytes read at once."""
_VALUES = 250_000
"""In one message: thousands of prompts have fewer, and what strangers send must not become fifty times its size."""
_UNREACHED = (OSError, OverflowError, UnicodeError)
"""The last two are said of ports and names that cannot be."""


async def ask(
    address: Address,
    request: LMRequest,
    timeout: float = TIMEOUT,
    *,
    secret: str | None = None,
    limit: int = FRAME_LIMIT,
) -> LMResponse:
    """Ask a handler, ours or that of `rlms`. Whoever stops waiting hangs up, and our handler stops asking its model.

    Raises:
        ModelUnavailable: Nobody is there, or it does not answer in time or at all.
        ProtocolError: It answered with something that cannot be read, or broke off.
        RequestRefused: The request is not JSON, or larger than the limit.
    """
    data = _framed(request, secret, limit)
    where = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address)
    try:
        async with time_limit(timeout):
            return response_of(await _exchanged(address, data, limit))
    except TimeoutError as error:
        raise ModelUnavailable(f"the handler at {where} gave no answer within {timeout:g} s") from error
    except _UNREACHED as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ModelUnavailable(f"the handler at {where} cannot be reached: {why}") from error


def send_lm_request(
    address: Address,
    request: LMRequest,
    timeout: float = TIMEOUT,
    depth: int | None = None,
    *,
    secret: str | None = None,
    limit: int = FRAME_LIMIT,
) -> LMResponse:
    """The blocking form, as in the original rlms: any failure is the error of the response."""
    if depth is not None:
        request = msgspec.structs.replace(request, depth=depth)
    portal = Portal()
    try:
        return portal.call(ask(address, request, timeout, secret=secret, limit=limit))
    except ModelError as error:
        return LMResponse(error=f"Request failed: {error}", metadata={"error_type": error.code})
    finally:
        portal.close()


def request_of(body: bytes) -> LMRequest:
    """The request in a frame; a `UsageError` if it is not JSON, or no request."""
    try:
        return LMRequest.from_dict(_object(body))
    except JSONTextError as error:
        raise UsageError(f"not an LMRequest: {error}") from error


def response_of(body: bytes) -> LMResponse:
    """The response in a frame; a `ProtocolError` if there is neither an answer nor an error in it."""
    try:
        response = LMResponse.from_dict(_object(body))
    except (JSONTextError, UsageError) as error:
        raise ProtocolError(f"the handler's answer cannot be read: {error}") from error
    if response.error is None and response.chat_completion is None and response.chat_completions is None:
        raise ProtocolError("the handler's answer has neither a completion nor an error in it")
    return response


def _object(body: bytes) -> Mapping[str, Any]:
    value = parse_lightly(body, max_values=_VALUES)
    if not isinstance(value, dict):
        raise JSONTextError(f"expected a JSON object, got {kind_of(value)}")
    return value


def _framed(request: LMRequest, secret: str | None, limit: int) -> bytes:
    if secret is not None:
        request = msgspec.structs.replace(request, metadata={**(request.metadata or {}), "secret": secret})
    try:
        return length_prefixed(request.to_dict(), limit)
    except FrameError as error:
        raise RequestRefused(f"the request cannot be sent: {error}") from error


async def _exchanged(address: Address, data: bytes, limit: int) -> bytes:
    reader, writer = await _connected(address)
    frames, said = FrameSplitter(limit), False
    try:
        writer.write(data)  # and no drain: a handler may refuse before it has read everything
        while piece := await reader.read(CHUNK):
            said = True
            # The answer as soon as it is whole; what may follow it is not looked at.
            if (body := next(frames.feed(piece), None)) is not None:
                return body
    except FrameError as error:
        raise ProtocolError(f"the handler's answer cannot be read: {error}") from error
    finally:
        writer.transport.abort()  # whatever of the request was not sent yet has nobody who wants it
    if said:
        raise ProtocolError("the handler broke off in the middle of its answer")
    raise ModelUnavailable("the handler closed the connection without an answer")


async def _connected(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if isinstance(address, tuple):
        return await asyncio.open_connection(*address, limit=CHUNK)
    return await asyncio.open_unix_connection(address, limit=CHUNK)
