"""Values that hold no free text: numbers, booleans, dates, addresses, one of several words that a developer wrote.

The extract of what outsiders wrote consists of them. A value is rebuilt by its schema, so that nothing else that a
model answered comes along.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from handrail.core.errors import InvalidDefinition

_MOST_ITEMS = 100
_LONGEST_CODE = 40
"""Characters of a text that fits a pattern, as an order number does."""
_LARGEST = 10**15
"""Numbers up to here. Larger ones could spell words."""
_DEEPEST = 20
_DATE = r"\d{4}-\d{2}-\d{2}"
_TIME = r"\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})?"
_HOST = r"(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z0-9-]{2,63}"
_FORMATS = {
    "date": re.compile(_DATE),
    "time": re.compile(_TIME),
    "date-time": re.compile(f"{_DATE}[T ]{_TIME}"),
    "duration": re.compile(r"P[0-9YMWDTHS.,]{1,30}"),
    "email": re.compile(rf"[A-Za-z0-9._%+-]{{1,64}}@{_HOST}"),
    "hostname": re.compile(_HOST),
    "ipv4": re.compile(r"\d{1,3}(?:\.\d{1,3}){3}"),
    "ipv6": re.compile(r"[0-9A-Fa-f:.]{2,45}"),
    "uri": re.compile(rf"https?://{_HOST}(?::\d{{1,5}})?(?:/[A-Za-z0-9._~%/=&?#+-]{{0,150}})?"),
    "uuid": re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"),
}
_CODE = re.compile(rf"[!-~]{{1,{_LONGEST_CODE}}}")
_KINDS = ("string", "integer", "number", "boolean", "null", "object", "array")


class NotPlain(ValueError):
    """A value is not what its schema says, or could hold free text."""


def check_plain_schema(schema: Any, tool: str) -> None:
    """
    Raises:
        InvalidDefinition: Free text would fit it, or it describes no object.
    """
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise InvalidDefinition(f"the extract of {tool!r} must be a schema of an object, or a type whose JSON is one")
    _check(schema, schema, "", tool, 0)


def _check(schema: Any, root: Mapping[str, Any], path: str, tool: str, depth: int) -> None:
    if not isinstance(schema, dict) or depth > _DEEPEST:
        raise InvalidDefinition(f"{path or 'the extract'!r} in the extract of {tool!r} has no plain type")
    schema = _resolved(schema, root)
    if "const" in schema or "enum" in schema:
        return
    for each in _options(schema):
        _check(each, root, path, tool, depth + 1)
    if _options(schema):
        return
    kinds = _kinds(schema)
    if not kinds or not set(kinds) <= set(_KINDS):
        raise InvalidDefinition(f"{path or 'the extract'!r} in the extract of {tool!r} needs a type")
    if "object" in kinds:
        for name, each in schema.get("properties", {}).items():
            _check(each, root, f"{path}.{name}".lstrip("."), tool, depth + 1)
    if "array" in kinds:
        _check(schema.get("items"), root, f"{path}[]", tool, depth + 1)
    if "string" in kinds and schema.get("format") not in _FORMATS and "pattern" not in schema:
        raise InvalidDefinition(
            f"{path!r} in the extract of {tool!r} would be free text, which is what the model must not read;"
            f" give it an enum, a pattern, or one of the formats {', '.join(_FORMATS)}"
        )


def plain_value(value: Any, schema: Mapping[str, Any]) -> Any:
    """The value, rebuilt by its schema. Fields that the schema does not have are left out.

    Raises:
        NotPlain: It does not fit.
    """
    return _plain_value(value, schema, schema, 0)


def _plain_value(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    if depth > _DEEPEST:
        raise NotPlain
    schema = _resolved(schema, root)
    if "const" in schema or "enum" in schema:
        allowed = schema["enum"] if "enum" in schema else [schema["const"]]
        return next(each for each in _found(value, allowed))
    for option in _options(schema):
        try:
            return _plain_value(value, option, root, depth + 1)
        except NotPlain:
            continue
    if _options(schema):
        raise NotPlain
    kinds = _kinds(schema)
    match value:
        case None if "null" in kinds:
            return None
        case bool() if "boolean" in kinds:
            return value
        case int() if not isinstance(value, bool) and {"integer", "number"} & set(kinds) and abs(value) < _LARGEST:
            return value
        case float() if "number" in kinds and math.isfinite(value) and abs(value) < _LARGEST:
            return value
        case str() if "string" in kinds and _is_plain_text(value, schema):
            return value
        case list() if "array" in kinds and len(value) <= _MOST_ITEMS:
            return [_plain_value(each, schema.get("items", {}), root, depth + 1) for each in value]
        case dict() if "object" in kinds:
            known = schema.get("properties", {})
            return {
                name: _plain_value(value[name], each, root, depth + 1) for name, each in known.items() if name in value
            }
    raise NotPlain


def _is_plain_text(value: str, schema: Mapping[str, Any]) -> bool:
    known = _FORMATS.get(schema.get("format", ""))
    if known is not None:
        return known.fullmatch(value) is not None
    return "pattern" in schema and _CODE.fullmatch(value) is not None


def _found(value: Any, allowed: Any) -> list[Any]:
    found = [each for each in allowed if type(each) is type(value) and each == value]
    if not found:
        raise NotPlain
    return found


def _options(schema: Mapping[str, Any]) -> list[Any]:
    return [each for key in ("anyOf", "oneOf") for each in schema.get(key, ())]


def _kinds(schema: Mapping[str, Any]) -> tuple[str, ...]:
    kinds = schema.get("type", ())
    return (kinds,) if isinstance(kinds, str) else tuple(kinds)


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(_DEEPEST):
        name = schema.get("$ref")
        if not isinstance(name, str):
            break
        schema = root.get("$defs", {}).get(name.removeprefix("#/$defs/"), {})
    return schema
