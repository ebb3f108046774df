"""The page of a node: its files, as they lie in the package, and the headers that hold it to them.

Every file is read once, when the node is made, into a table; what is not in it is not there. It stands before the
routes and before what lets pages of other origins in: those have no business with it, whoever is let in elsewhere.
It knows nothing of what the page does. That goes over the WebSocket, and needs a token there.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.responses import Response

from handrail.http.request_guard import App, Receive, Scope, Send, drain_request
from handrail.node.server.json_responses import bus_error_of, error_response

INDEX = "index.html"
UNDER = "/page/"
MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""What the page is made of. A file of another kind is not served."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    "referrer-policy": "no-referrer",
    "vary": "accept-encoding",
    "x-content-type-options": "nosniff",
}
_ALLOWED = ("GET", "HEAD", "OPTIONS")


class PageFile(Struct, frozen=True):
    """A file as it goes out."""

    media_type: str
    data: bytes
    packed: bytes
    """The same in gzip."""
    tag: str

    @classmethod
    def of(cls, data: bytes, media_type: str) -> PageFile:
        packed = gzip.compress(data, mtime=0)
        return cls(media_type, data, packed, f'W/"{sha256(data).hexdigest()[:32]}"')


class PageRoutes:
    """Answers what is asked of the page, and passes on the rest."""

    def __init__(self, app: App, *, files: Mapping[str, PageFile]) -> None:
        self._app = app
        self._files = files

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" else ""
        if path != "/" and not path.startswith(UNDER):
            return await self._app(scope, receive, send)
        found = self._files.get(INDEX if path == "/" else path.removeprefix(UNDER))
        response = _answer(found, scope["method"], Headers(scope=scope))
        if not await drain_request(receive):  # a body that nobody wants, and that does not end
            response.headers["connection"] = "close"
        await response(scope, receive, send)


def _answer(file: PageFile | None, method: str, headers: Headers) -> Response:
    allow = {"allow": ", ".join(_ALLOWED), **HEADERS}
    if file is None:
        return error_response(bus_error_of(404, "the page has no such file"), 404, HEADERS)
    if method == "OPTIONS":
        return Response(status_code=204, headers=allow)
    if method not in _ALLOWED:
        return error_response(bus_error_of(405, "this path has other methods; the header Allow names them"), 405, allow)
    kept = {"etag": file.tag, **HEADERS}
    if _has(headers, file.tag):
        return Response(status_code=304, headers=kept)
    packed = _takes_gzip(headers)
    data = file.packed if packed else file.data
    described = {"content-type": file.media_type, "content-length": str(len(data))}
    coded = {"content-encoding": "gzip"} if packed else {}
    return Response(b"" if method == "HEAD" else data, headers={**kept, **described, **coded})


def page_files() -> dict[str, PageFile]:
    """The page as it lies in the package, by names as `views/chat/view.js`."""
    return {
        name: PageFile.of(file.read_bytes(), media)
        for name, file in _under(files("handrail.desk") / "page")
        if (media := MEDIA.get(name[name.rfind(".") :])) is not None
    }


def _under(folder: Traversable, before: str = "") -> Iterator[tuple[str, Traversable]]:
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_dir():
            yield from _under(each, f"{before}{each.name}/")
        else:
            yield f"{before}{each.name}", each


def _has(headers: Headers, tag: str) -> bool:
    said = [each.strip() for value in headers.getlist("if-none-match") for each in value.split(",")]
    return "*" in said or tag.removeprefix("W/") in {each.removeprefix("W/") for each in said}


def _takes_gzip(headers: Headers) -> bool:
    for value in headers.getlist("accept-encoding"):
        for each in value.lower().split(","):
            coding, _, quality = each.partition(";")
            if coding.strip() in ("gzip", "*"):
                return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
