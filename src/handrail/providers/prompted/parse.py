"""The inside of a call, to its name and its arguments. Tolerant of how it is written, never of what it says.

Arguments that are JSON are given on exactly as written; the executor reads them
strictly. Only what is no JSON is rewritten, and only where it has one reading.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from handrail.core.jsontext import JSONTextError, parse, parse_object
from handrail.providers.prompted.lenient import Token, Unreadable, rewritten, split, tokens, written

Schemas = Mapping[str, dict[str, Any]]
"""The offered tools' input schemas by name: they tell text from numbers where a format does not."""

_Raw = dict[str, msgspec.Raw]
_NAMES = ("name", "tool", "tool_name", "function", "action", "command", "recipient_name")
_ARGUMENTS = ("arguments", "parameters", "params", "args", "input", "action_input", "tool_input", "kwargs")
_ABOUT = frozenset({"id", "call_id", "tool_call_id", "type", "index"})
_WRAPPERS = ("tool_calls", "tool_call", "function_call")
_NAME = re.compile(r"[\w.:/-]+")
_PARAMETER = re.compile(
    r"<parameter=([^>]*)>(.*?)(?:</parameter>(?=\s*+(?:<parameter=|\Z))|(?=<parameter=)|\Z)", re.DOTALL
)
_INVOKED = re.compile(
    r"<parameter name=\"([^\"]*)\"[^>]*>(.*?)(?:</parameter>(?=\s*+(?:<parameter |\Z))|(?=<parameter )|\Z)", re.DOTALL
)
_ARG = re.compile(
    r"<arg_key>((?:(?!<arg_key>).)*?)</arg_key>\s*<arg_value>(.*?)(?:</arg_value>(?=\s*+(?:<arg_key>|\Z))|\Z)",
    re.DOTALL,
)
_QUOTE = "[\"'“”„‘’]"
_SAID_NAME = re.compile(rf"{_QUOTE}(?:name|tool|tool_name|function){_QUOTE}\s*:\s*{_QUOTE}([\w.:/-]+){_QUOTE}")
_SAID_ARGUMENTS = re.compile(rf"{_QUOTE}(?:{'|'.join(_ARGUMENTS)}){_QUOTE}\s*:\s*")
_ELEMENTS = (("<parameter", "</parameter>"), ("<arg_key>", "</arg_value>"))
_DECODER = msgspec.json.Decoder(_Raw)


class Found(Struct, frozen=True):
    """A call in a text. The arguments are JSON, or what the model wrote instead of it."""

    name: str
    arguments: str


def read(body: str, schemas: Schemas) -> tuple[Found, ...] | None:
    """The calls in a body that is marked as one: JSON, elements, or calls as Python writes them."""
    text = body.strip()
    if text[:1] in ("{", "["):
        return _from_json(text, schemas, bare=False) or _from_code(text, schemas)
    return _from_elements(text, schemas) or _from_code(text, schemas)


def read_bare(body: str, schemas: Schemas) -> tuple[Found, ...] | None:
    """Likewise, but nothing marks it as a call: it must look like nothing else, or name an offered tool."""
    text = body.strip()
    calls = _from_json(text, schemas, bare=True)
    return _from_code(text, schemas) if calls is None and text.startswith("[") else calls


def read_function(body: str, schemas: Schemas) -> tuple[Found, ...] | None:
    """What follows `<function=`: a name, then parameters as elements, or one JSON object."""
    name, closed, rest = body.partition(">")
    return _named(name, rest, _PARAMETER, schemas) if closed else None


def read_invoke(body: str, schemas: Schemas) -> tuple[Found, ...] | None:
    """What follows `<invoke name="`."""
    name, closed, rest = body.partition('">')
    return _named(name, rest, _INVOKED, schemas) if closed else None


def read_arguments(name: str, body: str, schemas: Schemas) -> tuple[Found, ...] | None:
    """The arguments of a call whose name stood before them. Some models name it again inside."""
    text = body.strip()
    inner = _from_json(text, schemas, bare=True) if text.startswith("{") else None
    if inner is not None and len(inner) == 1 and inner[0].name in (name, known_name(name, schemas)):
        return inner
    name = known_name(name, schemas)
    arguments = as_object(text) if text.startswith("{") else _string_or_only(name, text, schemas)
    return None if arguments is None else (Found(name, arguments),)


def salvaged(body: str, schemas: Schemas) -> Found | None:
    """A call whose arguments cannot be read, with them as they are: so the model is told what was wrong."""
    name = _SAID_NAME.search(body)
    if name is None:
        return None
    start = _SAID_ARGUMENTS.search(body)
    return Found(known_name(name[1], schemas), body[start.end() :].strip() if start else body.strip())


def breaks_off(body: str, calls: tuple[Found, ...]) -> bool:
    """Whether a body that nothing closed ends inside a value, or before there were any."""
    for opens, closes in _ELEMENTS:
        if body.rfind(opens) > body.rfind(closes):
            return True
    if body.rstrip().endswith((")", "]", "}")):
        return False
    return any(call.arguments == "{}" for call in calls) and _SAID_ARGUMENTS.search(body) is None


def known_name(name: str, schemas: Schemas) -> str:
    """A name without the namespace that some formats put before it."""
    bare = name.removeprefix("functions.")
    return bare if name not in schemas else name


def as_object(text: str) -> str | None:
    """Text that is, or plainly means, a JSON object, as JSON; None otherwise."""
    try:
        parse_object(text)
    except JSONTextError:
        try:
            text = rewritten(text)
            parse_object(text)
        except (JSONTextError, Unreadable):
            return None
    return text.strip() or "{}"


def is_text(schema: Any) -> bool:
    """Whether a value that stands between tags is text and nothing else, by its schema."""
    return isinstance(schema, dict) and schema.get("type") == "string"


def property_of(schemas: Schemas, name: str, key: str) -> Any:
    properties = schemas.get(name, {}).get("properties")
    return properties.get(key) if isinstance(properties, dict) else None


def canonical(call: Found) -> tuple[str, str]:
    """The same for calls that ask for the same."""
    try:
        return call.name, json.dumps(parse(call.arguments), sort_keys=True)
    except JSONTextError:
        return call.name, call.arguments


def _from_json(text: str, schemas: Schemas, *, bare: bool) -> tuple[Found, ...] | None:
    """One object, or a list of them, each a call."""
    if not text.startswith("["):
        fields = _fields(text)
        return None if fields is None else _from_fields(fields, schemas, bare=bare)
    try:
        items = msgspec.json.decode(text, type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        try:
            items = msgspec.json.decode(rewritten(text), type=list[msgspec.Raw])
        except (msgspec.DecodeError, UnicodeError, RecursionError, Unreadable):
            return None
    found: list[Found] = []
    for item in items:
        fields = _fields(_text(item))
        calls = None if fields is None else _from_fields(fields, schemas, bare=bare)
        if calls is None:
            return None
        found.extend(calls)
    return tuple(found) or None


def _fields(text: str) -> _Raw | None:
    """An object's values as they are written."""
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        try:
            return _DECODER.decode(rewritten(text))
        except (msgspec.DecodeError, UnicodeError, RecursionError, Unreadable):
            return None


def _from_fields(fields: _Raw, schemas: Schemas, *, bare: bool) -> tuple[Found, ...] | None:
    for wrapper in _WRAPPERS:
        if wrapper in fields and (inner := _text(fields[wrapper])).startswith(("{", "[")):
            return _from_json(inner, schemas, bare=bare)
    nested = _text(fields["function"]) if "function" in fields else ""
    if nested.startswith("{"):
        return _from_json(nested, schemas, bare=bare)
    name_key = next((key for key in _NAMES if key in fields and _text(fields[key]).startswith('"')), None)
    if name_key is None:
        return None
    name = known_name(str(msgspec.json.decode(fields[name_key])).strip(), schemas)
    rest = {key: value for key, value in fields.items() if key != name_key and key not in _ABOUT}
    arguments_key = next((key for key in _ARGUMENTS if key in rest), None)
    if not name or (bare and name not in schemas and (arguments_key is None or len(rest) > 1)):
        return None
    if arguments_key is None:
        return (Found(name, _object(rest.items())),)
    return (Found(name, _arguments(_text(rest[arguments_key]))),)


def _arguments(text: str) -> str:
    """The value of a call's arguments: an object, a JSON string that holds one, or null."""
    if text.startswith('"'):
        inner = str(msgspec.json.decode(text))
        return as_object(inner) or inner
    return "{}" if text == "null" else text


def _string_or_only(name: str, text: str, schemas: Schemas) -> str:
    """No object: a JSON string that holds one, or text for the tool's one argument, or else for `input`."""
    if text.startswith('"'):
        try:
            parse(text)
        except JSONTextError:
            return text
        return _arguments(text)
    properties = schemas.get(name, {}).get("properties") or ()
    key = next(iter(properties)) if len(properties) == 1 else "input"
    return _object([(key, _value(name, key, text, schemas))])


def _named(name: str, rest: str, element: re.Pattern[str], schemas: Schemas) -> tuple[Found, ...] | None:
    name = known_name(name.strip().strip("\"'"), schemas)
    if not _NAME.fullmatch(name):
        return None
    if rest.lstrip().startswith("{"):
        return read_arguments(name, rest, schemas)
    pairs = element.findall(rest)
    closing = "</arg_value>" if element is _ARG else "</parameter>"
    if pairs and closing in pairs[-1][1] and not rest.rstrip().endswith(closing):
        return None  # something stands after the last value, or in it: nobody can tell
    return (Found(name, _object((key.strip(), _value(name, key.strip(), value, schemas)) for key, value in pairs)),)


def _value(name: str, key: str, value: str, schemas: Schemas) -> str:
    """An element's content as JSON: text if the schema says so, otherwise JSON if it is, and text if it is not."""
    content = value.removeprefix("\n").removesuffix("\n")
    if not is_text(property_of(schemas, name, key)):
        for reading in (content, content.strip()):
            try:
                parse(reading)
            except JSONTextError:
                continue
            return reading
        if content in ("True", "False", "None"):
            return {"True": "true", "False": "false", "None": "null"}[content]
    return json.dumps(content, ensure_ascii=False)


def _from_elements(text: str, schemas: Schemas) -> tuple[Found, ...] | None:
    """GLM's elements, `NAME<arg_key>K</arg_key><arg_value>V</arg_value>`, and `NAME {json}`."""
    name = _NAME.match(text)
    if name is None:
        return None
    rest = text[name.end() :].lstrip()
    if rest.startswith("<arg_key>"):
        return _named(name[0], rest, _ARG, schemas)
    return read_arguments(name[0], rest, schemas) if rest.startswith("{") else None


def _from_code(text: str, schemas: Schemas) -> tuple[Found, ...] | None:
    """`f(a=1)`, several under each other, or `[f(a=1), g(b=2)]`."""
    try:
        found = [token for token in tokens(text) if token[0] != "space"]
        if found and found[0] == ("mark", "[") and found[-1] == ("mark", "]"):
            return tuple(_call(item, schemas) for item in split(found[1:-1])) or None
        return tuple(_call(item, schemas) for item in _statements(found)) or None
    except (Unreadable, JSONTextError):
        return None


def _statements(found: list[Token]) -> Iterable[list[Token]]:
    depth = start = 0
    for index, (kind, token) in enumerate(found):
        depth += (kind == "mark" and token in "([{") - (kind == "mark" and token in ")]}")
        if depth == 0 and (kind, token) == ("mark", ")"):
            yield found[start : index + 1]
            start = index + 1
    if start < len(found):
        raise Unreadable


def _call(found: Any, schemas: Schemas) -> Found:
    match list(found):
        case [("word", "print"), ("mark", "("), *inner, ("mark", ")")] if inner[1:2] == [("mark", "(")]:
            return _call(inner, schemas)
        case [("word", name), ("mark", "("), *inner, ("mark", ")")]:
            name = known_name(name, schemas)
            positions = iter(schemas.get(name, {}).get("properties", {}))
            return Found(name, _object(_argument(item, positions) for item in split(inner)))
    raise Unreadable


def _argument(found: Any, positions: Any) -> tuple[str, str]:
    match list(found):
        case [("word", key), ("mark", "="), *value]:
            return key, _checked(written(value))
        case value:
            key = next(positions, None)
            if key is None:
                raise Unreadable
            return key, _checked(written(value))


def _checked(text: str) -> str:
    parse(text)
    return text


def _object(pairs: Iterable[tuple[str, str | msgspec.Raw]]) -> str:
    """An object of values that are JSON already."""
    return "{" + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {_text(value)}" for key, value in pairs) + "}"


def _text(raw: str | msgspec.Raw) -> str:
    return raw if isinstance(raw, str) else bytes(raw).decode().strip()
