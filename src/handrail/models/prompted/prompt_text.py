"""Tools, past calls and results as text of a format. The same request always gives the same text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.jsontext import JSONTextError, parse, parse_object
from handrail.core.model_request import ModelRequest, NamedTool, ToolOffer
from handrail.models.prompted.call_parser import is_text_schema, property_schema
from handrail.models.prompted.formats import CallFormat, ParameterFrame
from handrail.models.prompted.found_call import Schemas

_PLAIN_NAME = re.compile(r"[\w.:/-]+")
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_BRACKET_MARK = r"\[(?=/?(?:INST|SYSTEM|TOOL|THINK|ARGS|CALL_ID))"
"""The pattern of the beginning of marks in square brackets."""
_CONTROL = re.compile(
    rf"<[|｜/\w]|{_BRACKET_MARK}|functools\[|[\r\n\v\f\x1c-\x1e\x85\u2028\u2029][^\S\r\n]*(?:"
    r"```|[\[{]?\s*\{\s*[\"'](?:name|tool|function|action|type)\b|tool: \[|"
    r"\[\s*[^\W\d][\w.]*\s*\(|#{1,6} *(?:system|instruction)|"
    r"(?:action|action input|observation|thought|final answer|result of|error of|system|user|human|assistant|tool)\b)",
    re.IGNORECASE,
)
"""What opens a tag, a fence, a call, an answer or a turn in some format."""
_NOT_IN_KEYS = re.compile(r"[<>\"]")
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def tools_prompt(request: ModelRequest, format: CallFormat) -> str:
    """What the model is told of the tools; empty if it may use none."""
    tools = usable_tools(request)
    if not tools:
        return ""
    listed = _as_json(tools) if format.tools == "json" else "\n".join(map(_as_lines, tools))
    return "\n\n".join((f"You can call these tools:\n{listed}", _how(format), _rules(request)))


def usable_tools(request: ModelRequest) -> tuple[ToolOffer, ...]:
    """The tools that this request lets the model use."""
    match request.tool_choice:
        case "none":
            return ()
        case NamedTool(name):
            return tuple(tool for tool in request.tools if tool.name == name)
    return request.tools


def call_text(call: ToolCall, format: CallFormat, schemas: Schemas) -> str:
    """A past call as the model would have written it."""
    arguments = _arguments(call)
    special = None
    if isinstance(arguments, dict):
        match format.calls:
            case "python":
                special = _as_python(call.name, arguments, format)
            case "parameters" if format.parameters is not None:
                special = _as_parameters(call.name, arguments, format.parameters, schemas)
            case "strings":
                special = _with_strings(call.name, arguments, format)
    return special or framed_call(call.name, arguments, format)


def framed_call(name: str, arguments: Any, format: CallFormat) -> str:
    """A call in the format's frame. `<` is written as an escape, so that no argument can close it."""
    return format.frame.begin(name) + _json(arguments) + format.frame.closes


def result_text(results: Iterable[ToolResult], format: CallFormat) -> str:
    """Results as a user's message that the model takes for them."""
    write = _ANSWERS[format.answers]
    return "\n".join(write(result) for result in results)


def _in_tags(result: ToolResult) -> str:
    body = _json({"name": result.name, "error" if result.is_error else "content": result.content})
    return f"<tool_response>\n{body}\n</tool_response>"


def _observed(result: ToolResult) -> str:
    return f"Observation from {result.name}: {'error: ' if result.is_error else ''}{_quoted(result.text)}"


def _harmony(result: ToolResult) -> str:
    words = _quoted(result.text)
    return f"<|start|>functions.{result.name} to=assistant<|channel|>commentary<|message|>{words}<|end|>"


def _in_words(result: ToolResult) -> str:
    return f"{'Error' if result.is_error else 'Result'} of {result.name}: {_quoted(result.text)}"


def _quoted(text: str) -> str:
    """The words of a result: as they are, or as one line of JSON if a model could take them for more than that.

    What would begin a call, another result or a new turn is then inside quotes, without its marks.
    """
    return _json(text) if _CONTROL.search(text) else text


_ANSWERS = {"tags": _in_tags, "observation": _observed, "harmony": _harmony, "words": _in_words}


def _how(format: CallFormat) -> str:
    match format.calls:
        case "python":
            shown = "TOOL(ARGUMENT=VALUE)".join(format.code)
        case "parameters" if format.parameters is not None:
            form = format.parameters
            shown = f"{form.opens}TOOL{form.named}{form.key}ARGUMENT{form.text}VALUE{form.ends}{form.closes}"
        case "strings":
            frame, mark = format.frame, format.strings
            shown = f"{frame.opens}TOOL{frame.middle}{{ARGUMENT:{mark}TEXT{mark},ARGUMENT:NUMBER}}{frame.closes}"
        case _:
            frame = format.frame
            shown = f'{frame.opens}TOOL{frame.middle}{{"ARGUMENT": VALUE}}{frame.closes}'
    return f"To call a tool, write exactly this and nothing after it:\n{shown}"


def _rules(request: ModelRequest) -> str:
    several = "For several calls, write one after the other." if request.parallel else "Make one call at a time."
    match request.tool_choice:
        case "required":
            choice = "You must call a tool now."
        case NamedTool(name):
            choice = f"You must call {name} now."
        case _:
            choice = "If no tool is needed, answer in plain text."
    return f"{several} {choice}\nThe results come in the next message; never write them yourself."


def _as_json(tools: tuple[ToolOffer, ...]) -> str:
    lines = (
        _json({"name": tool.name, "description": tool.description, "parameters": tool.input_schema}) for tool in tools
    )
    return "<tools>\n" + "\n".join(lines) + "\n</tools>"


def _as_lines(tool: ToolOffer) -> str:
    properties = tool.input_schema.get("properties")
    required = tool.input_schema.get("required") or ()
    lines = [f"- {tool.name}: {_one_line(tool.description)}"]
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        lines.append(_argument_line(name, schema if isinstance(schema, dict) else {}, needed=name in required))
    return "\n".join(lines)


def _argument_line(name: str, schema: dict[str, Any], *, needed: bool) -> str:
    otherwise = f"default {_json(schema['default'])}" if "default" in schema else "optional"
    about = _one_line(str(schema.get("description", "")))
    when = "required" if needed else otherwise
    return f"  {name}: {_type(schema)} ({when}){' ' + about if about else ''}"


def _type(schema: dict[str, Any]) -> str:
    """A schema in a word or two; what has no short name stands as it is."""
    match schema:
        case {"enum": list(values)}:
            return "one of " + ", ".join(map(_json, values))
        case {"const": value}:
            return _json(value)
        case {"type": "array", "items": dict(items)} if _is_simple(items):
            return f"array of {_type(items)}"
        case {"type": str(kind)} if _is_simple(schema):
            return kind
        case {"type": list(kinds)} if _is_simple(schema):
            return " or ".join(map(str, kinds))
    shown = {key: value for key, value in schema.items() if key not in ("title", "description", "default")}
    return _json(shown) if shown else "any"


def _is_simple(schema: dict[str, Any]) -> bool:
    return schema.keys() <= {"type", "title", "description", "default", "enum", "const", "format"}


def _arguments(call: ToolCall) -> Any:
    """The arguments as an object, or as the text that the model wrote instead."""
    if isinstance(call.arguments, dict):
        return call.arguments
    try:
        return parse_object(call.arguments)
    except JSONTextError:
        return call.arguments


def _as_python(name: str, arguments: dict[str, Any], format: CallFormat) -> str | None:
    if not _DOTTED.fullmatch(name) or not all(map(_IDENTIFIER.fullmatch, arguments)):
        return None
    written = ", ".join(f"{key}={_python(value)}" for key, value in arguments.items())
    return f"{name}({written})".join(format.code)


def _python(value: Any) -> str:
    match value:
        case None | bool():
            return str(value)
        case dict():
            return "{" + ", ".join(f"{_json(str(key))}: {_python(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_python, value)) + "]"
    # A string of JSON means the same in Python; the fence must not be closed by one.
    return _json(value).replace("`", "\\u0060")


def _as_parameters(name: str, arguments: dict[str, Any], form: ParameterFrame, schemas: Schemas) -> str | None:
    if not _PLAIN_NAME.fullmatch(name):
        return None
    written = [form.opens, name, form.named]
    for key, value in arguments.items():
        text = _parameter(name, key, value, schemas)
        begins_or_ends_a_line = text != text.strip("\n") and not form.ends.startswith("\n")
        if "<" in text or begins_or_ends_a_line or key != key.strip() or _NOT_IN_KEYS.search(key):
            return None
        written += form.key, key, form.json if form.json and text is not value else form.text, text, form.ends
    return "".join((*written, form.closes))


def _with_strings(name: str, arguments: dict[str, Any], format: CallFormat) -> str | None:
    """As `call:NAME{KEY:VALUE}`, whose strings stand between two of one mark."""
    text = _unquoted(arguments, format.strings)
    if text is None or not _PLAIN_NAME.fullmatch(name):
        return None
    return format.frame.begin(name) + text + format.frame.closes


def _unquoted(value: Any, mark: str) -> str | None:
    match value:
        case str():
            return None if "<" in value else f"{mark}{value}{mark}"
        case dict():
            if not all(_IDENTIFIER.fullmatch(str(key)) for key in value):
                return None
            items = [_unquoted(item, mark) for item in value.values()]
            pairs = [f"{key}:{item}" for key, item in zip(value, items, strict=True)]
            return None if None in items else "{" + ",".join(pairs) + "}"
        case list() | tuple():
            items = [_unquoted(item, mark) for item in value]
            return None if None in items else "[" + ",".join(map(str, items)) + "]"
    return json.dumps(value)


def _parameter(name: str, key: str, value: Any, schemas: Schemas) -> str:
    """A value between tags: text as it is where it cannot be taken for anything else."""
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if not is_text_schema(property_schema(schemas, name, key)) else "<"
    if is_text_schema(property_schema(schemas, name, key)):
        return value
    try:
        parse(value.strip())
    except JSONTextError:
        return value if value not in ("True", "False", "None") else _json(value)
    return _json(value)


def _json(value: Any) -> str:
    """JSON in which no string holds a mark."""
    text = json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
    return re.sub(_BRACKET_MARK, r"\\u005b", text) if "[" in text else text


def _one_line(text: str) -> str:
    return " ".join(text.split())
