"""Calls as Python writes them, to their names and arguments. Nothing is evaluated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from handrail.core.jsontext import JSONTextError, parse
from handrail.models.prompted.found_call import FoundCall, Schemas, json_object_of, name_without_namespace
from handrail.models.prompted.lenient_json import Token, UnreadableJson, json_tokens, split_at_commas, tokens_as_json


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
