"""A tool whose body is an HTTP request: `http = { method = "GET", url = "https://…/{city}" }`.

A model fills in values; where the request goes, and with which rights, the file says.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec

from handrail.core.invocation import Invocation
from handrail.tools.files.request_templates import (
    JsonTemplate,
    RequestHeaders,
    UrlTemplate,
    read_headers,
    read_json_template,
    read_url_template,
)
from handrail.tools.files.template import ArgumentTemplate, TemplateReader
from handrail.tools.files.toml_table import TomlTable

MAX_BYTES = 10 * 1024 * 1024
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
SAFE = ("GET", "HEAD")

_KEYS = ("method", "url", "headers", "query", "json", "body", "expect", "redirects", "max_bytes")

Expect = Literal["json", "text"]


@dataclass(frozen=True, slots=True)
class HttpToolRequest:
    """One request, ready to be sent."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class HttpHandler:
    """The handler: fills the templates, sends the request, reads the answer."""

    method: str
    url: UrlTemplate
    headers: RequestHeaders
    query: Mapping[str, ArgumentTemplate]
    json: JsonTemplate | None = None
    body: ArgumentTemplate | None = None
    expect: Expect | None = None
    """The expected form of the answer; None goes by its media type."""
    redirects: bool = False
    max_bytes: int = MAX_BYTES
    side_effects: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    async def __call__(self, context: Invocation, arguments: Mapping[str, Any]) -> Any:
        from handrail.tools.files.http_exchange import (
            send_http_request,  # it loads an HTTP client, which only this body needs
        )

        request = self.request(arguments, context.idempotency_key)
        return await send_http_request(
            request,
            expect=self.expect,
            redirects=self.redirects,
            max_bytes=self.max_bytes,
            side_effects=self.side_effects,
        )

    def request(self, arguments: Mapping[str, Any], idempotency_key: str = "") -> HttpToolRequest:
        """What one call sends.

        Raises:
            InvalidArguments: A value cannot stand where its place is.
            ToolError: A secret is not set.
        """
        headers, secrets = self.headers.render(arguments, self.environ)
        if self.side_effects and idempotency_key:
            headers["Idempotency-Key"] = idempotency_key
        body = self._body(arguments)
        if self.json is not None and not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = "application/json"
        return HttpToolRequest(self.method, self._address(arguments), headers, body, tuple(secrets))

    def _address(self, arguments: Mapping[str, Any]) -> str:
        url = self.url.render(arguments)
        pairs = [(name, text) for name, template in self.query.items() for text in template.elements(arguments)]
        if not pairs:
            return url
        return f"{url}{'&' if '?' in url else '?'}{urlencode(pairs)}"

    def _body(self, arguments: Mapping[str, Any]) -> bytes | None:
        if self.json is not None:
            return msgspec.json.encode(self.json.fill(arguments))
        if self.body is not None:
            return (self.body.render(arguments) or "").encode()
        return None


def method_of(table: TomlTable) -> str:
    """The method of the body under `http`, which says whether the tool changes anything."""
    inner = table.table("http")
    method = None if inner is None else inner.choice("method", METHODS)
    return method or "GET"


def read_http(table: TomlTable, schema: Mapping[str, Any], *, side_effects: bool) -> HttpHandler:
    """The body under the key `http` of a descriptor.

    Raises:
        ConfigError: Something in it is wrong; the error names the key.
    """
    inner = TomlTable(table.values["http"], table.at("http")).only(_KEYS)
    reader, method = TemplateReader(schema), method_of(table)
    if "url" not in inner:
        raise inner.place.error("needs a url")
    for key in ("json", "body"):
        if key in inner and (method in SAFE or {"json", "body"} <= set(inner.values)):
            raise inner.error(key, "a GET or HEAD sends no body, and any other sends one of json and body")
    if inner.flag("redirects") and method not in SAFE:
        raise inner.error("redirects", "only a GET or HEAD can follow them: anything else might be done twice")
    expect, query = inner.choice("expect", ("json", "text")), inner.table("query")
    return HttpHandler(
        method=method,
        url=read_url_template(inner.text("url") or "", reader, inner.at("url")),
        headers=read_headers(inner.table("headers") or TomlTable({}, inner.place), reader),
        query={} if query is None else {key: _query_value(query, key, reader) for key in query.values},
        json=read_json_template(inner.values["json"], reader, inner.at("json")) if "json" in inner else None,
        body=None if (body := inner.text("body")) is None else reader.read(body, inner.at("body"), ("one", "maybe")),
        expect="json" if expect == "json" else "text" if expect == "text" else None,
        redirects=inner.flag("redirects") or False,
        max_bytes=inner.count("max_bytes", 1) or MAX_BYTES,
        side_effects=side_effects,
    )


def _query_value(table: TomlTable, key: str, reader: TemplateReader) -> ArgumentTemplate:
    match table.values[key]:
        case str() as text:
            return reader.read(text, table.at(key))
        case bool() | int() | float() as value:
            return ArgumentTemplate((msgspec.json.encode(value).decode(),))
    raise table.error(key, "must be text, a number, or true or false")
