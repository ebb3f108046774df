"""Sends one request and reads its answer. The only file here that knows aiohttp.

There is no deadline in it: the executor's cancels it, and that closes the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import aiohttp
from yarl import URL

from handrail.core.errors import InDoubt, InvalidOutput, ToolError, describe
from handrail.core.jsontext import JSONTextError, parse
from handrail.core.redact import MASK
from handrail.tools.files.url import origin_of

if TYPE_CHECKING:
    from handrail.tools.files.http import Expect, Request

ERROR_SHOWN = 2000
MAX_REDIRECTS = 5


async def exchange(
    request: Request, *, expect: Expect | None, redirects: bool, max_bytes: int, side_effects: bool
) -> Any:
    """Send a request and give its answer as JSON or text.

    Raises:
        ToolError: The answer is an error, too large, or leads elsewhere; or nobody answered.
        InDoubt: The connection broke after a request that changes something was sent.
        InvalidOutput: The answer is not the JSON that it should be.
    """
    try:
        async with aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=None)
        ) as session:
            answer = await _send(session, request, request.url, MAX_REDIRECTS if redirects else 0, max_bytes)
    except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
        raise ToolError("network", f"{origin_of(request.url)} cannot be reached: {describe(error)}") from error
    except (aiohttp.ClientError, OSError) as error:
        why = f"{origin_of(request.url)} broke off the exchange: {describe(error)}"
        if side_effects:
            raise InDoubt(f"{why}; the request may have taken effect") from error
        raise ToolError("network", why) from error
    return _value(*answer, expect, request)


async def _send(
    session: aiohttp.ClientSession, request: Request, url: str, redirects: int, max_bytes: int
) -> tuple[str, str]:
    """The media type and text of a good answer."""
    async with session.request(
        request.method,
        URL(url, encoded=True),  # as it is: whatever yarl would tidy, the templates meant
        headers=request.headers,
        data=request.body,
        allow_redirects=False,
    ) as response:
        location = response.headers.get("Location")
        if 300 <= response.status < 400 and location is not None and redirects:
            following = _within_origin(url, location)
        elif response.status >= 300:
            raise await _refused(response, request)
        else:
            return response.content_type, _decoded(await _read(response, max_bytes), response)
    return await _send(session, request, following, redirects - 1, max_bytes)


def _within_origin(url: str, location: str) -> str:
    """Headers hold secrets that are meant for one host."""
    following = urljoin(url, location)
    if origin_of(following) != origin_of(url):
        raise ToolError("redirected", f"{origin_of(url)} leads to {origin_of(following)}, which is not followed")
    return following


async def _refused(response: aiohttp.ClientResponse, request: Request) -> ToolError:
    code = f"http_{response.status}"
    if response.status < 400:
        where = response.headers.get("Location", "nowhere")
        return ToolError(code, f"the answer leads to {where}, which is not followed")
    said = _decoded(await response.content.read(4 * ERROR_SHOWN), response)
    shown = _masked(said, request)[:ERROR_SHOWN].strip()
    return ToolError(code, f"{response.status} {response.reason}{f': {shown}' if shown else ''}")


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > max_bytes:
            raise ToolError(
                "response_too_large",
                f"the request was answered with {response.status}, but by more than {max_bytes} bytes; ask for less",
            )
    return bytes(body)


def _decoded(body: bytes, response: aiohttp.ClientResponse) -> str:
    try:
        return body.decode(response.charset or "utf-8", "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


def _value(media_type: str, text: str, expect: Expect | None, request: Request) -> Any:
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


def _masked(text: str, request: Request) -> str:
    """A service may repeat what it was sent."""
    for secret in request.secrets:
        text = text.replace(secret, MASK)
    return text
