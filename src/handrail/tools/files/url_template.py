"""A URL with places for arguments in its path and query, and nowhere else.

Scheme, host and port are written out in the file. A value is percent-encoded whole,
so that it is always part of one segment or one query value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from handrail.core.errors import InvalidArguments
from handrail.tools.files.template import ArgumentTemplate, TemplateReader
from handrail.tools.files.toml_table import TomlKeyPath

_ORIGIN = re.compile(r"(?P<origin>https?://[A-Za-z0-9.\-_\[\]:]+)(?P<rest>[/?].*)?", re.DOTALL)
_UNWRITTEN = re.compile(r"[^\x21-\x7e]|[#\\]")


@dataclass(frozen=True, slots=True)
class UrlTemplate:
    origin: str
    """`https://host:port`, as written."""
    path: ArgumentTemplate
    query: ArgumentTemplate | None

    def render(self, arguments: Mapping[str, Any]) -> str:
        """The whole URL, encoded.

        Raises:
            InvalidArguments: A value would change which resource or which host is asked.
        """
        for slot in self.path.slots:
            if arguments.get(slot.name) == "":
                raise InvalidArguments(f"{slot.name}: must not be empty, since it is part of a path")
        path = self.path.render(arguments, _encoded) or "/"
        if _climbs(path):
            names = ", ".join(slot.name for slot in self.path.slots)
            raise InvalidArguments(f"{names}: must not make '.' or '..' a part of the path")
        query = "" if self.query is None else f"?{self.query.render(arguments, _encoded)}"
        url = f"{self.origin}{path}{query}"
        if origin_of(url) != self.origin:
            raise InvalidArguments(f"the arguments would send the request away from {self.origin}")
        return url


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def read_url_template(text: str, reader: TemplateReader, place: TomlKeyPath) -> UrlTemplate:
    """Read a URL whose scheme and host are written out.

    Raises:
        ConfigError: They are not, or it holds a password, a fragment or a wrong place.
    """
    match = _ORIGIN.fullmatch(text)
    if match is None:
        raise place.error(
            "must begin with http:// or https:// and a host that is written out, without user, password or {…}"
        )
    rest = match["rest"] or "/"
    if (odd := _UNWRITTEN.search(rest)) is not None:
        raise place.error(f"must not contain {odd.group()!r}; percent-encode it")
    path, asks, query = rest.partition("?")
    if _climbs(path):
        raise place.error("must not contain '.' or '..' as a part of the path; write it out")
    _check_authority(match["origin"], place)
    return UrlTemplate(
        match["origin"],
        reader.read(path or "/", place, ("one",)),
        reader.read(query, place, ("one",)) if asks else None,
    )


def _check_authority(origin: str, place: TomlKeyPath) -> None:
    try:
        parts = urlsplit(origin)
        usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise place.error(f"{origin!r} has no usable host and port")


def _encoded(value: str) -> str:
    return quote(value, safe="")


def _climbs(path: str) -> bool:
    return any(segment in (".", "..") for segment in path.split("/"))
