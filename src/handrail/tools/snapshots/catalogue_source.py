"""A catalogue from elsewhere: a JSON file, or the `/capabilities` of a node. What is not understood is refused.

nrv's own shape is taken as well: its schemas may be JSON text, and what it says of
hardware and limits is not for compilers.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from handrail.core.errors import ConfigError, InvalidDefinition, InvalidSchema, UsageError, describe_exception
from handrail.core.jsontext import JSONTextError, kind_of, parse
from handrail.core.timeouts import time_limit
from handrail.http import BadHttpAnswer, HttpAddress, HttpAnswer, HttpClient, HttpNotConnected, request_head
from handrail.tools.definition import ToolDefinition
from handrail.tools.snapshots.catalogue import CatalogueModel, CatalogueTool, NodeCatalogue

MOST = 8 * 1024 * 1024
"""Bytes of a source."""
_BESIDE = frozenset({"metadata", "limits", "workloads", "hardware", "captured_at"})
"""What nrv says about a node beside its tools and models."""
_OF_MODEL = frozenset({"id", "provider", "model", "supports_tool_calls", "tools"})
_BESIDE_MODEL = frozenset(
    {
        "display_name",
        "family",
        "modality",
        "ctx_max",
        "max_tokens_out",
        "supports_parallel_functions",
        "inference_units_per_ms",
    }
)


async def read_source(source: str, *, timeout: float = 30.0) -> NodeCatalogue:
    """The catalogue at a path or at an http address.

    Raises:
        UsageError: It cannot be read.
        ConfigError: It is no catalogue, or one that contradicts itself.
    """
    if source.lower().startswith(("http://", "https://")):
        return read_catalogue(await _fetched(source, timeout), _shown_url(source))
    return read_catalogue(await asyncio.to_thread(_read_file, source), source)


def read_catalogue(data: bytes, name: str) -> NodeCatalogue:
    """Parses a catalogue and checks it.

    Raises:
        ConfigError: It is no catalogue, or one that contradicts itself.
    """
    try:
        value = parse(data, max_size=MOST)
    except JSONTextError as error:
        raise ConfigError(f"is not JSON: {error}", file=name) from error
    if not isinstance(value, dict) or not value.keys() & {"tools", "models"}:
        raise ConfigError("is not a catalogue: it must be an object with tools and models", file=name)
    if unknown := sorted(value.keys() - _BESIDE - {"tools", "models"}):
        raise ConfigError("there is no such key in a catalogue", file=name, key=unknown[0])
    tools = [_read(_tool, item, name, key) for key, item in _listed(value, "tools", name)]
    models = [_read(_model, item, name, key) for key, item in _listed(value, "models", name)]
    try:
        return NodeCatalogue.of(tools, models)
    except (InvalidDefinition, InvalidSchema) as error:
        raise ConfigError(str(error), file=name) from error


def _listed(value: Mapping[str, Any], key: str, name: str) -> list[tuple[str, Any]]:
    items = value.get(key)
    if items is None:
        items = []
    if not isinstance(items, list):
        raise ConfigError(f"expected an array, got {kind_of(items)}", file=name, key=key)
    return [(f"{key}[{at}]", item) for at, item in enumerate(items)]


def _read(reader: Any, item: Any, name: str, key: str) -> Any:
    if not isinstance(item, dict):
        raise ConfigError(f"expected an object, got {kind_of(item)}", file=name, key=key)
    try:
        return reader(item)
    except (InvalidDefinition, InvalidSchema, msgspec.ValidationError) as error:
        raise ConfigError(str(error), file=name, key=key) from error


def _tool(item: dict[str, Any]) -> CatalogueTool:
    said = {key: value for key, value in item.items() if value is not None}
    scoped = said.pop("scoped_name", None)
    definition = ToolDefinition.from_dict(said)
    hinted = "annotations" in said
    made = {
        "name": definition.name,
        "scoped_name": scoped,
        "description": definition.description or None,
        "input_schema": definition.input_schema,
        "returns_schema": definition.output_schema,
        "side_effects": definition.side_effects if hinted or "side_effects" in said else None,
        "idempotent": definition.idempotent if hinted or "idempotent" in said else None,
        "timeout_ms": definition.timeout_ms,
        "tags": definition.tags or None,
        "models": definition.models,
    }
    return msgspec.convert(made, CatalogueTool)


def _model(item: dict[str, Any]) -> CatalogueModel:
    if unknown := sorted(item.keys() - _OF_MODEL - _BESIDE_MODEL):
        raise InvalidDefinition(f"a model has no {unknown[0]!r}; it has {', '.join(sorted(_OF_MODEL))}")
    if not isinstance(item.get("supports_tool_calls"), bool):
        raise InvalidDefinition("a model must say whether it supports_tool_calls: true or false")
    said = {key: value for key, value in item.items() if key in _OF_MODEL and value is not None}
    return msgspec.convert(said, CatalogueModel)


def _read_file(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(MOST + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


# ── asking a node ───────────────────────────────────────────────────────────────────


async def _fetched(url: str, timeout: float) -> bytes:
    client = HttpClient(connect=timeout, silence=timeout, total=timeout)
    try:
        address = HttpAddress.of(url)
        request = request_head("GET", address, {"accept": "application/json"})
        async with time_limit(timeout):
            return await _body(await client.ask(address, request), url)
    except TimeoutError as error:
        raise UsageError(f"{_shown_url(url)} did not answer within {timeout:g} s") from error
    except (ValueError, HttpNotConnected, BadHttpAnswer, ssl.SSLError, OSError) as error:
        raise UsageError(f"{_shown_url(url)} cannot be read: {describe_exception(error)}") from error
    finally:
        await client.aclose()


async def _body(answer: HttpAnswer, url: str) -> bytes:
    try:
        if answer.status != 200:
            raise UsageError(f"{_shown_url(url)} answered {answer.status} {answer.reason}, and no catalogue")
        body = bytearray()
        while chunk := await answer.read():
            body += chunk
            if len(body) > MOST:
                raise UsageError(f"{_shown_url(url)} answered with more than {MOST} bytes")
        return bytes(body)
    finally:
        answer.close()


def _shown_url(url: str) -> str:
    """The address without a login and without a query, which may hold keys."""
    try:
        parts = urlsplit(url)
    except ValueError:  # what cannot be read cannot be shown in part
        return "the address"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
