"""The inside of a call, to its name and its arguments. Tolerant of how it is written, never of what it says.

Arguments that are JSON are given on exactly as written; the executor reads them
strictly. Only what is no JSON is rewritten, and only where it has one reading.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from handrail.core.jsontext import JSONTextError, parse, parse_object
from handrail.models.prompted.argument_elements import (
    ARG,
    ARG_OPEN,
    DSML,
    FUNCTION,
    INVOKE,
    PAIRS,
    STEP,
    ElementStyle,
    element_pattern,
)
from handrail.models.prompted.found_call import (
    FoundCall,
    Reader,
    Schemas,
    json_object_of,
    json_text_of,
    name_without_namespace,
    read_python_calls,
)
from handrail.models.prompted.lenient_json import UnreadableJson, strict_json

_Raw = dict[str, msgspec.Raw]
_NAMES = ("name", "tool", "tool_name", "function", "action", "command", "recipient_name")
_ARGUMENTS = ("arguments", "parameters", "params", "args", "input", "action_input", "tool_input", "kwargs")
_ABOUT = frozenset({"id", "call_id", "tool_call_id", "type", "index"})
_WRAPPERS = ("tool_calls", "tool_call", "function_call")
_NAME = re.compile(r"[\w.:/-]+")
_QUOTE = "[\"'“”„‘’]"
_SAID_NAME = re.compile(rf"{_QUOTE}(?:name|tool|tool_name|function){_QUOTE}\s*:\s*{_QUOTE}([\w.:/-]+){_QUOTE}")
_SAID_ARGUMENTS = re.compile(rf"{_QUOTE}(?:{'|'.join(_ARGUMENTS)}){_QUOTE}\s*:\s*")
_CALLED = re.compile(r"\s*call:([\w.:/-]+)\s*(?=[{\"])")
_IS_STRING = 'string="true"'
_SEPARATOR = re.compile(r"\s*<tool_sep(?::opensource)?>")
_DECODER = msgspec.json.Decoder(_Raw)


def read_calls(body: str, schemas: Schemas) -> tuple[FoundCall, ...] | None:
    """The calls in a body that is marked as one: JSON, elements, or calls as Python writes them."""
    text = body.strip()
    if text[:1] in ("{", "["):
        return _from_json(text, schemas, bare=False) or read_python_calls(text, schemas)
    return _from_elements(text, schemas) or read_python_calls(text, schemas)


def read_bare_calls(body: str, schemas: Schemas) -> tuple[FoundCall, ...] | None:
    """Likewise, but nothing marks it as a call: it must look like nothing else, or name an offered tool."""
    text = body.strip()
    calls = _from_json(text, schemas, bare=True)
    return read_python_calls(text, schemas) if calls is None and text.startswith("[") else calls


def read_function_element(body: str, schemas: Schemas) -> tuple[FoundCall, ...] | None:
    """What follows `<function=`: a name, then parameters as elements, or one JSON object."""
    name, closed, rest = body.partition(">")
    return _named(name, rest, FUNCTION, schemas) if closed else None


def invoke_reader(elements: ElementStyle) -> Reader:
    """Reads what follows `<invoke name="` in formats that differ in the names of their elements."""

    def read_invoke(body: str, schemas: Schemas) -> tuple[FoundCall, ...] | None:
        name, closed, rest = body.partition('">')  # without it, the element closes itself
        return (
            _named(name, rest, elements, schemas)
            if closed or name_without_namespace(name, schemas) in schemas
            else None
        )

    return read_invoke


read_invoke, read_step, read_dsml = map(invoke_reader, (INVOKE, STEP, DSML))


def read_by_key(body: str, schemas: Schemas) -> tuple[FoundCall, ...] | None:
    """A list of objects with one key each, which names the tool: `[{"NAME": {…}}]`."""
    try:
        items = msgspec.json.decode(_as_list(body.strip()), type=list[dict[str, msgspec.Raw]])
    except (msgspec.DecodeError, UnicodeError, RecursionError, UnreadableJson):
        return None
    if any(
        len(item) != 1 or (item.keys() & set(_NAMES) and not json_text_of(*item.values()).startswith("{"))
        for item in items
    ):
        return read_calls(body, schemas)
    return tuple(
        FoundCall(name_without_namespace(name, schemas), _arguments(json_text_of(value)))
        for item in items
        for name, value in item.items()
    )


def delimited_reader(delimiter: str) -> Reader:
    """Reads Gemma's `call:NAME{KEY:VALUE}`, whose strings stand between two of one delimiter."""

    def read_delimited(body: str, schemas: Schemas) -> tuple[FoundCall, ...] | None:
        found = _CALLED.match(body)
        if found is None:
            return None
        name, rest = name_without_namespace(found[1], schemas), body[found.end() :]
        if rest.startswith('"'):
            return read_arguments(name, rest, schemas)
        parts = rest.split(delimiter)
        if len(parts) % 2 == 0 or not rest.rstrip().endswith("}"):
            return None
        strings = (json.dumps(part, ensure_ascii=False) if index % 2 else part for index, part in enumerate(parts))
        text = as_json_object("".join(strings))
        return None if text is None else (FoundCall(name, _typed(name, text, schemas)),)

    return read_delimited


def read_arguments(name: str, body: str, schemas: Schemas) -> tuple[FoundCall, ...] | None:
    """The arguments of a call whose name stood before them. Some models name it again inside."""
    text = body.strip()
    inner = _from_json(text, schemas, bare=True) if text.startswith("{") else None
    if inner is not None and len(inner) == 1 and inner[0].name in (name, name_without_namespace(name, schemas)):
        return inner
    name = name_without_namespace(name, schemas)
    if not text:
        return (FoundCall(name, "{}"),)
    arguments = as_json_object(text) if text.startswith("{") else _string_or_only(name, text, schemas)
    return None if arguments is None else (FoundCall(name, arguments),)


def salvaged_call(body: str, schemas: Schemas) -> FoundCall | None:
    """A call whose arguments cannot be read, with them as they are: so the model is told what was wrong."""
    if (called := _CALLED.match(body)) is not None:
        return FoundCall(name_without_namespace(called[1], schemas), body[called.end() :].strip())
    name = _SAID_NAME.search(body)
    if name is None:
        return None
    start = _SAID_ARGUMENTS.search(body)
    return FoundCall(name_without_namespace(name[1], schemas), body[start.end() :].strip() if start else body.strip())


def ends_inside_value(body: str, calls: tuple[FoundCall, ...]) -> bool:
    """Whether a body that nothing closed ends inside a value, or before there were any."""
    for opens, closes in PAIRS.items():
        if body.rfind(opens) > body.rfind(closes):
            return True
    if body.rstrip().endswith((")", "]", "}")):
        return False
    if not calls or calls[-1].arguments != "{}":
        return False
    names = list(_SAID_NAME.finditer(body))
    return _SAID_ARGUMENTS.search(body, names[-1].end() if names else 0) is None


def as_json_object(text: str) -> str | None:
    """Text that is, or plainly means, a JSON object, as JSON; None otherwise."""
    try:
        parse_object(text)
    except JSONTextError:
        try:
            text = strict_json(text)
            parse_object(text)
        except (JSONTextError, UnreadableJson):
            return None
    return text.strip() or "{}"


def is_text_schema(schema: Any) -> bool:
    """Whether a value that stands between tags is text and nothing else, by its schema."""
    return isinstance(schema, dict) and schema.get("type") == "string"


def property_schema(schemas: Schemas, name: str, key: str) -> Any:
    properties = schemas.get(name, {}).get("properties")
    return properties.get(key) if isinstance(properties, dict) else None


def canonical_call(call: FoundCall) -> tuple[str, str]:
    """The same for calls that ask for the same."""
    try:
        return call.name, json.dumps(parse(call.arguments), sort_keys=True)
    except JSONTextError:
        return call.name, call.arguments


def _as_list(text: str) -> str:
    """Text that is, or plainly means, a JSON list, as JSON.

    Raises:
        UnreadableJson: There is no one reading of it.
    """
    try:
        parse(text)
    except JSONTextError:
        return strict_json(text)
    return text


def _from_json(text: str, schemas: Schemas, *, bare: bool) -> tuple[FoundCall, ...] | None:
    """One object, or a list of them, each a call."""
    if not text.startswith("["):
        fields = _fields(text)
        return None if fields is None else _from_fields(fields, schemas, bare=bare)
    try:
        items = msgspec.json.decode(text, type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        try:
            items = msgspec.json.decode(strict_json(text), type=list[msgspec.Raw])
        except (msgspec.DecodeError, UnicodeError, RecursionError, UnreadableJson):
            return None
    found: list[FoundCall] = []
    for item in items:
        fields = _fields(json_text_of(item))
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
            return _DECODER.decode(strict_json(text))
        except (msgspec.DecodeError, UnicodeError, RecursionError, UnreadableJson):
            return None


def _from_fields(fields: _Raw, schemas: Schemas, *, bare: bool) -> tuple[FoundCall, ...] | None:
    for wrapper in _WRAPPERS:
        if wrapper in fields and (inner := json_text_of(fields[wrapper])).startswith(("{", "[")):
            return _from_json(inner, schemas, bare=bare)
    nested = json_text_of(fields["function"]) if "function" in fields else ""
    if nested.startswith("{"):
        return _from_json(nested, schemas, bare=bare)
    name_key = next((key for key in _NAMES if key in fields and json_text_of(fields[key]).startswith('"')), None)
    if name_key is None:
        return None
    name = name_without_namespace(str(msgspec.json.decode(fields[name_key])).strip(), schemas)
    rest = {key: value for key, value in fields.items() if key != name_key and key not in _ABOUT}
    arguments_key = next((key for key in _ARGUMENTS if key in rest), None)
    if not name or (bare and name not in schemas and (arguments_key is None or len(rest) > 1)):
        return None
    if arguments_key is None:
        return (FoundCall(name, json_object_of(rest.items())),)
    return (FoundCall(name, _arguments(json_text_of(rest[arguments_key]))),)


def _arguments(text: str) -> str:
    """The value of a call's arguments: an object, a JSON string that holds one, or null."""
    if text.startswith('"'):
        inner = str(msgspec.json.decode(text))
        return as_json_object(inner) or inner
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
    return json_object_of([(key, _value(name, key, text, schemas))])


def _named(name: str, rest: str, elements: ElementStyle, schemas: Schemas) -> tuple[FoundCall, ...] | None:
    name = name_without_namespace(name.strip().strip("\"'"), schemas)
    if not _NAME.fullmatch(name):
        return None
    if rest.lstrip().startswith(("{", '"')):
        return read_arguments(name, rest, schemas)
    pairs = element_pattern(elements).findall(rest)
    if pairs and elements.closes in pairs[-1][-1] and not rest.rstrip().endswith(elements.closes):
        return None  # something stands after the last value, or in it: nobody can tell
    return (FoundCall(name, json_object_of(_element(name, *pair, schemas=schemas) for pair in pairs)),)


def _element(name: str, key: str, *rest: str, schemas: Schemas) -> tuple[str, str]:
    """Reads one argument; `rest` is its value, after its attributes if it can have some."""
    key, value = key.strip(), rest[-1]
    if _IS_STRING in rest[0] and len(rest) > 1 and _may_be_text(property_schema(schemas, name, key)):
        return key, json.dumps(value, ensure_ascii=False)
    return key, _value(name, key, value, schemas)


def _may_be_text(schema: Any) -> bool:
    return not isinstance(schema, dict) or "type" not in schema or schema["type"] == "string"


def _typed(name: str, text: str, schemas: Schemas) -> str:
    """An object in which strings may stand for other values: as the schema has them."""
    fields = _fields(text) or {}
    if all(_may_be_text(property_schema(schemas, name, key)) for key in fields):
        return text
    return json_object_of((key, _retyped(name, key, json_text_of(value), schemas)) for key, value in fields.items())


def _retyped(name: str, key: str, text: str, schemas: Schemas) -> str:
    if not text.startswith('"') or _may_be_text(property_schema(schemas, name, key)):
        return text
    return _value(name, key, str(msgspec.json.decode(text)), schemas)


def _value(name: str, key: str, value: str, schemas: Schemas) -> str:
    """An element's content as JSON: text if the schema says so, otherwise JSON if it is, and text if it is not."""
    content = value.removeprefix("\n").removesuffix("\n")
    if not is_text_schema(property_schema(schemas, name, key)):
        for reading in (content, content.strip()):
            try:
                parse(reading)
            except JSONTextError:
                continue
            return reading
        if content in ("True", "False", "None"):
            return {"True": "true", "False": "false", "None": "null"}[content]
    return json.dumps(content, ensure_ascii=False)


def _from_elements(text: str, schemas: Schemas) -> tuple[FoundCall, ...] | None:
    """`NAME<arg_key>K</arg_key><arg_value>V</arg_value>` of GLM and Hunyuan, `NAME {json}`, and a tool's name alone."""
    name = _NAME.match(text)
    if name is None:
        return None
    separator = _SEPARATOR.match(text, name.end())
    rest = text[separator.end() if separator else name.end() :].lstrip()
    for elements in (ARG, ARG_OPEN):
        if rest.startswith(elements.opens):
            return _named(name[0], rest, elements, schemas)
    if rest.startswith(("{", '"')):
        return read_arguments(name[0], rest, schemas)
    bare = name_without_namespace(name[0], schemas)
    return (FoundCall(bare, "{}"),) if not rest and (separator or bare in schemas) else None
