"""The parts of an HTTP request with places for arguments: its URL, its headers, and JSON.

URL: only path and query have places; scheme, host and port are written out in the file. A value is percent-encoded
whole, so that it is always part of one segment or one query value.

Headers: `Authorization = "Bearer env:WEATHER_TOKEN"` reads the variable when the call is made. Neither the value nor
any text that holds it is shown.

JSON: a text that is one place becomes the argument itself, number, list or object; in a longer text it is put in as
text. Keys are never templates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from handrail.core.errors import InvalidArguments, ToolError
from handrail.core.jsontext import why_not_json
from handrail.core.redact import remember_secret
from handrail.tools.files.template import ALL_MODES, ArgumentTemplate, Mode, TemplateReader, argument_items
from handrail.tools.files.toml_table import TomlKeyPath, TomlTable

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


_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
FROM_ENVIRONMENT = re.compile(r"(?P<before>(?:[^{}]* )?)env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "idempotency-key"})


@dataclass(frozen=True, slots=True)
class EnvironmentHeader:
    """The value of an environment variable, after some text."""

    before: str
    name: str


HeaderValue = ArgumentTemplate | EnvironmentHeader


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    values: Mapping[str, HeaderValue]

    def render(self, arguments: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
        """The headers for one call, and the secrets among them.

        Raises:
            InvalidArguments: An argument holds a line break or another control character.
            ToolError: A variable is not set.
        """
        rendered: dict[str, str] = {}
        secrets: list[str] = []
        for name, value in self.values.items():
            match value:
                case EnvironmentHeader():
                    secrets.append(_secret(value.name, environ))
                    rendered[name] = value.before + secrets[-1]
                case ArgumentTemplate():
                    if (text := value.render(arguments)) is not None:
                        rendered[name] = _one_line(text, value)
        return rendered, secrets


def read_headers(table: TomlTable, reader: TemplateReader) -> RequestHeaders:
    values: dict[str, HeaderValue] = {}
    for name in table.values:
        if not _NAME.fullmatch(name):
            raise table.error(name, "is not the name of a header")
        if name.lower() in _OURS:
            raise table.error(name, "is set for each request and cannot be written here")
        values[name] = _read_header(table.text(name) or "", name, table, reader)
    return RequestHeaders(values)


def _read_header(text: str, name: str, table: TomlTable, reader: TemplateReader) -> HeaderValue:
    if _CONTROL.search(text):
        raise table.error(name, "must not contain a line break or another control character")
    match = FROM_ENVIRONMENT.fullmatch(text)
    if match is not None:
        return EnvironmentHeader(match["before"], match["name"])
    return reader.read(text, table.at(name), ("one", "maybe"))


def _one_line(text: str, template: ArgumentTemplate) -> str:
    if _CONTROL.search(text):
        names = ", ".join(slot.name for slot in template.slots)
        raise InvalidArguments(f"{names}: must not contain a line break or another control character")
    return text


def _secret(name: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name, "")
    if not value:
        raise ToolError("not_configured", f"the environment variable {name!r} is not set; set it and call again")
    if _CONTROL.search(value):
        raise ToolError("not_configured", f"the environment variable {name!r} holds a line break; remove it")
    remember_secret(value)
    return value


Tree = Any
"""JSON in which every text is a `ArgumentTemplate`."""

_DROPPED = object()


@dataclass(frozen=True, slots=True)
class JsonTemplate:
    tree: Tree

    def fill(self, arguments: Mapping[str, Any]) -> Any:
        """The JSON value for one call; what is dropped at the very top is null."""
        value = _filled(self.tree, arguments)
        return None if value is _DROPPED else value


def read_json_template(value: Any, reader: TemplateReader, place: TomlKeyPath) -> JsonTemplate:
    """Compile the texts of a JSON value.

    Raises:
        ConfigError: A template is wrong, or a value has no JSON form.
    """
    return JsonTemplate(_compile_json(value, reader, place, ("one", "maybe")))


def _compile_json(value: Any, reader: TemplateReader, place: TomlKeyPath, modes: tuple[Mode, ...]) -> Tree:
    match value:
        case str():
            return reader.read(value, place, modes)
        case dict():
            return {key: _compile_json(item, reader, place.at(key), ("one", "maybe")) for key, item in value.items()}
        case list():
            return [_compile_json(item, reader, place.at(index), ALL_MODES) for index, item in enumerate(value)]
    if (why := why_not_json(value)) is not None:
        raise place.error(f"it cannot be written as JSON: {why}")
    return value


def _filled(tree: Tree, arguments: Mapping[str, Any]) -> Any:
    match tree:
        case ArgumentTemplate():
            return _fill_value(tree, arguments)
        case dict():
            filled = {key: _filled(item, arguments) for key, item in tree.items()}
            return {key: value for key, value in filled.items() if value is not _DROPPED}
        case list():
            return [value for item in tree for value in _fill_items(item, arguments) if value is not _DROPPED]
    return tree


def _fill_value(template: ArgumentTemplate, arguments: Mapping[str, Any]) -> Any:
    slot = template.whole
    if slot is None:
        text = template.render(arguments)
        return _DROPPED if text is None else text
    value = arguments.get(slot.name, _DROPPED)
    if slot.mode == "maybe":
        return _DROPPED if value is None else value
    if value is _DROPPED:
        raise InvalidArguments(f"{slot.name}: expected a value, got none")
    return value


def _fill_items(item: Tree, arguments: Mapping[str, Any]) -> Iterator[Any]:
    if isinstance(item, ArgumentTemplate) and (slot := item.whole) is not None and slot.mode == "each":
        yield from argument_items(slot, arguments)
    else:
        yield _filled(item, arguments)
