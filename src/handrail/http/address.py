"""Where a request goes: the parts of a URL that a connection and a request line need."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

_PORTS = {"http": 80, "https": 443}
_KEPT = "!#$%&'()*+,/:;=?@[]~"
"""What a target may hold as it is; a percent sign is taken for the beginning of something quoted."""


class HttpAddress(NamedTuple):
    scheme: str
    host: str
    port: int
    target: str
    """The path and the query."""
    login: str = ""
    """`user:password` without percent signs, if the URL has one."""

    @property
    def authority(self) -> str:
        """The host and port as the Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @classmethod
    def of(cls, url: str) -> HttpAddress:
        """The parts of a URL.

        Raises:
            ValueError: It is no http or https URL.
        """
        return _read(url)


@lru_cache(maxsize=256)
def _read(url: str) -> HttpAddress:
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("it is not an http or https URL with a host")
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    if not host.isprintable() or " " in host:
        raise ValueError("its host has a character that no host has")
    target = quote(parts.path or "/", safe=_KEPT) + (f"?{quote(parts.query, safe=_KEPT)}" if parts.query else "")
    login = "" if parts.username is None else unquote(f"{parts.username}:{parts.password or ''}")
    return HttpAddress(parts.scheme, host, parts.port or _PORTS[parts.scheme], target, login)


_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BREAKS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def request_head(method: str, address: HttpAddress, headers: Mapping[str, str], *, whole_url: bool = False) -> bytes:
    """The head of a request, without the length of the body and the empty line. `whole_url` is for a proxy.

    Raises:
        ValueError: A header has a character that would end it.
    """
    target = f"http://{address.authority}{address.target}" if whole_url else address.target
    lines = [f"{method} {target} HTTP/1.1"]
    if not any(name.lower() == "host" for name in headers):
        lines.append(f"host: {address.authority}")
    if address.login and not any(name.lower() == "authorization" for name in headers):
        lines.append(f"authorization: {basic_credentials(address.login)}")
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or _BREAKS.search(value):
            raise ValueError(f"the header {name!r} has a line end or another character that no header takes")
        lines.append(f"{name}: {value}")
    return "".join(f"{line}\r\n" for line in lines).encode()


def basic_credentials(login: str) -> str:
    return f"Basic {base64.b64encode(login.encode()).decode()}"
