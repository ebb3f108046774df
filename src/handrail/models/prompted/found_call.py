"""A call that was found in a text, and what its readers share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from handrail.core.jsontext import JSONTextError, parse
from handrail.models.prompted.lenient_json import Token, UnreadableJson, json_tokens, split_at_commas, tokens_as_json

Schemas = Mapping[str, dict[str, Any]]
"""The offered tools' input schemas by name: they tell text from numbers where a format does not."""


class FoundCall(Struct, frozen=True):
    """A call in a text. The arguments are JSON, or what the model wrote instead of it."""

    name: str
    arguments: str


Reader = Callable[[str, Schemas], tuple[FoundCall, ...] | None]
"""Given the inside of a call: the calls in it; None if there is no one reading."""


def name_without_namespace(name: str, schemas: Schemas) -> str:
    """A name without the namespace that some formats put before it."""
    bare = name.removeprefix("functions.")
    return bare if name not in schemas else name


def json_object_of(pairs: Iterable[tuple[str, str | msgspec.Raw]]) -> str:
    """An object of values that are JSON already."""
    return (
        "{" + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {json_text_of(value)}" for key, value in pairs) + "}"
    )


def json_text_of(raw: str | msgspec.Raw) -> str:
    return raw if isinstance(raw, str) else bytes(raw).decode().strip()


def read_python_calls(text: str, schemas: Schemas) -> tuple[FoundCall, ...] | None:
    """`f(a=1)`, several under each other, or `[f(a=1), g(b=2)]`."""
    try:
        found = [token for token in json_tokens(text) if token[0] != "space"]
        if found and found[0] == ("mark", "[") and found[-1] == ("mark", "]"):
            return tuple(_call(item, schemas) for item in split_at_commas(found[1:-1])) or None
        return tuple(_call(item, schemas) for item in _statements(found)) or None
    except (UnreadableJson, JSONTextError):
        return None


def _statements(found: list[Token]) -> Iterable[list[Token]]:
    depth = start = 0
    for index, (kind, token) in enumerate(found):
        depth += (kind == "mark" and token in "([{") - (kind == "mark" and token in ")]}")
        if depth == 0 and (kind, token) == ("mark", ")"):
            yield found[start : index + 1]
            start = index + 1
    if start < len(found):
        raise UnreadableJson


def _call(found: Any, schemas: Schemas) -> FoundCall:
    match list(found):
        case [("word", "print"), ("mark", "("), *inner, ("mark", ")")] if inner[1:2] == [("mark", "(")]:
            return _call(inner, schemas)
        case [("word", name), ("mark", "("), *inner, ("mark", ")")]:
            name = name_without_namespace(name, schemas)
            positions = iter(schemas.get(name, {}).get("properties", {}))
            return FoundCall(name, json_object_of(_argument(item, positions) for item in split_at_commas(inner)))
    raise UnreadableJson


def _argument(found: Any, positions: Any) -> tuple[str, str]:
    match list(found):
        case [("word", key), ("mark", "="), *value]:
            return key, _checked(tokens_as_json(value))
        case value:
            key = next(positions, None)
            if key is None:
                raise UnreadableJson
            return key, _checked(tokens_as_json(value))


def _checked(text: str) -> str:
    parse(text)
    return text
