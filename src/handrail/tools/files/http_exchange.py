"""Sends one request and reads its answer.

There is no deadline in it: the executor's cancels it, and that closes the connection.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from handrail.core.errors import InDoubt, InvalidOutput, ToolError, describe_exception
from handrail.core.jsontext import JSONTextError, parse
from handrail.core.redact import MASK
from handrail.http import BadHttpAnswer, HttpAddress, HttpAnswer, HttpClient, HttpNotConnected, request_head
from handrail.tools.files.request_templates import origin_of

if TYPE_CHECKING:
    from handrail.tools.files.http_handler import Expect, HttpToolRequest

ERROR_SHOWN = 2000
MAX_REDIRECTS = 5


async def send_http_request(
    request: HttpToolRequest,
    *,
    expect: Expect | None,
    redirects: bool,
    max_bytes: int,
    side_effects: bool,
    tls: ssl.SSLContext | bool = True,
) -> Any:
    """Send a request and give its answer as JSON or text.

    Raises:
        ToolError: The answer is an error, too large, or leads elsewhere; or nobody answered.
        InDoubt: The connection broke after a request that changes something was sent.
        InvalidOutput: The answer is not the JSON that it should be.
    """
    client = HttpClient(tls=tls, connect=None, silence=None)
    try:
        answer = await _send(client, request, request.url, MAX_REDIRECTS if redirects else 0, max_bytes)
    except (HttpNotConnected, ssl.SSLCertVerificationError) as error:
        raise ToolError(
            "network", f"{origin_of(request.url)} cannot be reached: {describe_exception(error)}"
        ) from error
    except (BadHttpAnswer, OSError) as error:
        why = f"{origin_of(request.url)} broke off the exchange: {describe_exception(error)}"
        if side_effects:
            raise InDoubt(f"{why}; the request may have taken effect") from error
        raise ToolError("network", why) from error
    finally:
        await client.aclose()
    return _value(*answer, expect, request)


async def _send(
    client: HttpClient, request: HttpToolRequest, url: str, redirects: int, max_bytes: int
) -> tuple[str, str]:
    """The media type and text of a good answer."""
    answer = await client.ask(*_address_and_head(request, url), request.body or b"")
    try:
        location = answer.headers.get("location")
        if 300 <= answer.status < 400 and location is not None and redirects:
            following = _within_origin(url, location)
        elif answer.status >= 300:
            raise await _refused(answer, request)
        else:
            return answer.media_type, _decoded(await _read(answer, max_bytes), answer)
    finally:
        answer.close()
    return await _send(client, request, following, redirects - 1, max_bytes)


def _address_and_head(request: HttpToolRequest, url: str) -> tuple[HttpAddress, bytes]:
    try:
        address = HttpAddress.of(url)
        return address, request_head(request.method, address, request.headers)
    except ValueError as error:
        raise HttpNotConnected(str(error)) from error


def _within_origin(url: str, location: str) -> str:
    """Headers hold secrets that are meant for one host."""
    try:
        following = urljoin(url, location)
        there = origin_of(following)
    except ValueError:
        there = "nowhere"
    if there != origin_of(url):
        raise ToolError("redirected", f"{origin_of(url)} leads to {there}, which is not followed")
    return following


async def _refused(answer: HttpAnswer, request: HttpToolRequest) -> ToolError:
    code = f"http_{answer.status}"
    if answer.status < 400:
        where = _masked(answer.headers.get("location", "nowhere"), request)[:ERROR_SHOWN]
        return ToolError(code, f"the answer leads to {where}, which is not followed")
    said = _decoded(await _beginning(answer, 4 * ERROR_SHOWN), answer).strip()
    words = f"{answer.status} {answer.reason}: {said}" if said else f"{answer.status} {answer.reason}"
    return ToolError(code, _masked(words, request)[:ERROR_SHOWN].strip())


async def _beginning(answer: HttpAnswer, size: int) -> bytes:
    """The part of the body that arrives: the status has said what became of the request."""
    body = bytearray()
    with suppress(OSError, BadHttpAnswer):
        while len(body) < size and (chunk := await answer.read()):
            body += chunk
    return bytes(body[:size])


async def _read(answer: HttpAnswer, max_bytes: int) -> bytes:
    body = bytearray()
    while chunk := await answer.read():
        body += chunk
        if len(body) > max_bytes:
            raise ToolError(
                "response_too_large",
                f"the request was answered with {answer.status}, but by more than {max_bytes} bytes; ask for less",
            )
    return bytes(body)


def _decoded(body: bytes, answer: HttpAnswer) -> str:
    try:
        return body.decode(answer.charset or "utf-8", "replace")
    except (LookupError, UnicodeError):  # there is no such charset, or none that replaces
        return body.decode("utf-8", "replace")


def _value(media_type: str, text: str, expect: Expect | None, request: HttpToolRequest) -> Any:
    text = _masked(text, request)
    is_json = media_type == "application/json" or media_type.endswith("+json")
    if expect == "text" or (expect is None and not is_json):
        return text
    if not text.strip() and expect is None:
        return None
    try:
        return parse(text, max_size=len(text))
    except JSONTextError as error:
        raise InvalidOutput(f"the answer is not JSON: {error}") from error


def _masked(text: str, request: HttpToolRequest) -> str:
    """A service may repeat what it was sent."""
    for secret in request.secrets:
        text = text.replace(secret, MASK)
    return text
