"""A form that a server asks a person to fill in, field by field. What is typed is held to the schema of the field."""

from __future__ import annotations

import json
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from handrail.core.confirmation import Confirmation, Decision, Defer, Deny, Edit
from handrail.core.display import inline, printable, printable_lines
from handrail.core.redact import is_secret
from handrail.execute.terminal.line_reader import read_line, read_word, tell
from handrail.tools.schema.validator import Validator

_YES = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


async def fill_form(question: Confirmation, by: str) -> Decision:
    """The values as an `Edit`; `Deny` if the person will not, `Defer` for not now."""
    form = question.form or {}
    tell()
    tell(printable_lines(question.description))
    if question.why:
        tell(f"You are asked because {printable(question.why)}.")
    match await read_word("Fill it in? [y/N/l(ater)] "):
        case "l" | "later":
            return Defer()
        case "y" | "yes":
            return Edit(by, await _values(form, question.arguments))
    return Deny(by)


async def _values(form: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    properties = form.get("properties")
    needed = form.get("required") or ()
    found: dict[str, Any] = {}
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        facts = schema if isinstance(schema, dict) else {}
        value = await _field(name, facts, defaults.get(name), needed=name in needed)
        if value is not None:
            found[name] = value
    return found


async def _field(name: str, schema: Mapping[str, Any], default: Any, *, needed: bool) -> Any:
    """What a person gives for one field, asked until it fits; None if it may be left out and was."""
    validator = Validator({"type": "object", "properties": {name: dict(schema)}}, f"the field {name!r}")
    for line in _about(name, schema, default, needed):
        tell(line)
    while True:
        with _unseen(is_secret(schema)):
            written = await read_line(f"{printable(name)}: ")
        if not written:
            if default is not None or not needed:
                return default
            tell("  It is needed.")
            continue
        value = _read(schema, written)
        problems = validator.problems({name: value})
        if not problems:
            return value
        for problem in problems:
            tell(f"  {printable(problem)}")


def _about(name: str, schema: Mapping[str, Any], default: Any, needed: bool) -> Iterator[str]:
    title, described = schema.get("title"), schema.get("description")
    words = " – ".join(each for each in (title, described) if isinstance(each, str))
    if words:
        yield f"  {printable(words)}"
    choices = [printable(f"{value} ({label})" if label != value else str(value)) for value, label in _choices(schema)]
    if choices:
        yield f"  One of: {', '.join(choices)}" + ("; several with commas" if schema.get("type") == "array" else "")
    elif schema.get("type") == "boolean":
        yield "  y or n"
    if default is not None:
        yield f"  Empty is {inline(default)}."
    elif not needed:
        yield "  It may stay empty."


def _choices(schema: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Values and what they are called, in each way that forms have of saying it."""
    inner = schema.get("items")
    facts = inner if schema.get("type") == "array" and isinstance(inner, dict) else schema
    for key in ("oneOf", "anyOf"):
        parts = facts.get(key)
        if isinstance(parts, list):
            return [(each["const"], each.get("title", each["const"])) for each in parts if _has_const(each)]
    values, names = facts.get("enum"), facts.get("enumNames")
    if not isinstance(values, list):
        return []
    return list(zip(values, names if isinstance(names, list) and len(names) == len(values) else values, strict=True))


def _has_const(part: Any) -> bool:
    return isinstance(part, dict) and "const" in part


def _read(schema: Mapping[str, Any], written: str) -> Any:
    """What a line means in the type of its field; what has none is left as text, for the schema to refuse."""
    read = _READERS.get(str(schema.get("type")), str)
    try:
        return read(written)
    except ValueError:
        return written


_READERS: Mapping[str, Callable[[str], Any]] = {
    "integer": int,
    "number": lambda written: float(written) if "." in written or "e" in written.lower() else int(written),
    "boolean": lambda written: _YES.get(written.lower(), written),
    "array": lambda written: [each.strip() for each in written.split(",") if each.strip()],
    "object": json.loads,
}


@contextmanager
def _unseen(secret: bool) -> Iterator[None]:
    """Let the terminal not show what is typed."""
    if not secret:
        yield
        return
    handle = 0
    before = termios.tcgetattr(handle)
    hidden = list(before)
    hidden[3] = before[3] & ~termios.ECHO
    termios.tcsetattr(handle, termios.TCSADRAIN, hidden)
    try:
        yield
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)
        tell()
