"""The spellings of a tool definition that we read: OpenAI's, Anthropic's, HearthNet's, nrv's, MCP's and TOML's.

Each becomes the keyword arguments of one `ToolDefinition`. An unknown key is an
error, because a dropped key is a promise not kept.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from handrail.core.errors import InvalidDefinition
from handrail.core.jsontext import JSONTextError, parse

_SCHEMA_KEYS = ("input_schema", "parameters", "parameters_schema", "inputSchema", "arguments_schema", "argschema")
_OUTPUT_KEYS = ("output_schema", "returns", "returns_schema", "outputSchema")
LABELS = ("untrusted", "private", "own", "directs", "carries", "sends_out", "extract")
"""What is declared about the fields of results, and about arguments."""
_OURS = ("name", "description", "side_effects", "idempotent", "timeout", "binding", "models", "tags", *LABELS)
_IGNORED = frozenset({"type", "strict", "cache_control", "enabled", "title", "source", "icons", "_meta"})
"""Hints to one provider or one loader that say nothing about the tool."""


def canonical_definition(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same definition with our keys."""
    data = _unwrapped(data)
    found: dict[str, Any] = {}
    for key, value in data.items():
        if key in _OURS:
            if key == "untrusted" and "annotations" in data:
                found.pop(key, None)  # the hint is only for what says nothing itself
            _set_once(found, key, value)
        elif key in _SCHEMA_KEYS:
            _set_once(found, "input_schema", _schema(value, key))
        elif key in _OUTPUT_KEYS:
            _set_once(found, "output_schema", None if value is None else _schema(value, key))
        elif (reader := _READERS.get(key)) is not None:
            reader(found, value)
        elif key not in _IGNORED:
            raise InvalidDefinition(_unknown(key, data))
    if "name" not in found:
        raise InvalidDefinition(f"a tool definition needs a name; got the keys {sorted(data)}")
    if bound := found.pop("bound", None):
        _set_once(found, "binding", bound)
    return found


def _unwrapped(data: Mapping[str, Any]) -> Mapping[str, Any]:
    match data:
        case {"function": Mapping() as inner, **outer}:
            return _joined(inner, outer)
        case {"invoker": Mapping() as inner, "arguments": schema, **outer}:
            return _joined(inner, {**outer, "input_schema": schema})
        case {"invoker": Mapping() as inner, **outer}:
            return _joined(inner, outer)
    return data


def _joined(inner: Mapping[str, Any], outer: Mapping[str, Any]) -> dict[str, Any]:
    """One table of two: what stands beside the wrapped definition belongs to the tool as well."""
    twice = sorted(inner.keys() & outer.keys() - _IGNORED)
    if twice:
        raise InvalidDefinition(f"{twice[0]!r} is given twice, inside and outside; keep one")
    return {**outer, **inner}


def _schema(value: Any, key: str) -> Any:
    """A schema may be JSON text, as nrv's snapshots write it."""
    if not isinstance(value, str):
        return value
    try:
        return parse(value)
    except JSONTextError as error:
        raise InvalidDefinition(f"{key} is text but not JSON: {error}") from error


def _timeout_ms(found: dict[str, Any], value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidDefinition(f"a timeout in milliseconds is a number, not {value!r}")
    _set_once(found, "timeout", value / 1000)


def _annotations(found: dict[str, Any], value: Any) -> None:
    """MCP's hints. If they say nothing, a tool from elsewhere counts as a side effect."""
    if not isinstance(value, Mapping | None):
        raise InvalidDefinition(f"annotations are an object, not {type(value).__name__}")
    hints = value or {}
    _set_once(found, "side_effects", hints.get("readOnlyHint") is not True)
    _set_once(found, "idempotent", hints.get("idempotentHint") is True)
    if hints.get("openWorldHint") is True:
        found.setdefault("untrusted", True)


def _bound(part: str) -> Callable[[dict[str, Any], Any], None]:
    def read(found: dict[str, Any], value: Any) -> None:
        if value is not None:
            found["bound"] = {**found.get("bound", {}), part: value}

    return read


_READERS: dict[str, Callable[[dict[str, Any], Any], None]] = {
    "timeout_ms": _timeout_ms,
    "timeoutMs": _timeout_ms,
    "bound_capability": _bound("capability"),
    "bound_version": _bound("version"),
    "annotations": _annotations,
}


def _set_once(found: dict[str, Any], key: str, value: Any) -> None:
    if key in found:
        raise InvalidDefinition(f"{key!r} is given twice, in two spellings; keep one")
    found[key] = value


def _unknown(key: str, data: Mapping[str, Any]) -> str:
    known = (*_OURS, *_SCHEMA_KEYS, *_OUTPUT_KEYS, *_READERS)
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; the keys are {', '.join(known)}"
    return f"tool {data.get('name', '(unnamed)')!r} has the unknown key {key!r}{hint}"
