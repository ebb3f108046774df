"""The head of a request as bytes."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

from handrail.http.address import HttpAddress

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BREAKS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def request_head(method: str, address: HttpAddress, headers: Mapping[str, str], *, whole_url: bool = False) -> bytes:
    """All of it but for the length of the body and the empty line. `whole_url` is for a proxy.

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
