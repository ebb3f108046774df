"""The headers of a request: written out, with places for arguments, or with secrets from the environment.

`Authorization = "Bearer env:WEATHER_TOKEN"` reads the variable when the call is
made. Neither the value nor any text that holds it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from handrail.core.errors import InvalidArguments, ToolError
from handrail.core.redact import remember_secret
from handrail.tools.files.template import ArgumentTemplate, TemplateReader
from handrail.tools.files.toml_table import TomlTable

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
FROM_ENVIRONMENT = re.compile(r"(?P<before>(?:[^{}]* )?)env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "idempotency-key"})


@dataclass(frozen=True, slots=True)
class EnvironmentHeader:
    """The value of an environment variable, after some text."""

    before: str
    name: str


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    values: Mapping[str, ArgumentTemplate | EnvironmentHeader]

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
    values: dict[str, ArgumentTemplate | EnvironmentHeader] = {}
    for name in table.values:
        if not _NAME.fullmatch(name):
            raise table.error(name, "is not the name of a header")
        if name.lower() in _OURS:
            raise table.error(name, "is set for each request and cannot be written here")
        values[name] = _read(table.text(name) or "", name, table, reader)
    return RequestHeaders(values)


def _read(text: str, name: str, table: TomlTable, reader: TemplateReader) -> ArgumentTemplate | EnvironmentHeader:
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
