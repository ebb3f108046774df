"""Tool results as text, without a model: every value as the tool returned it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.core.model import ToolOffer
from handrail.providers.local.answers.phrases import Phrases

_LONGEST_LINE = 80
"""Characters of a value that still stands in one line with others."""
_MOST_LINES = 40
_MOST_TOOLS = 12
_LONGEST_TEXT = 4000
"""Characters of a text result that are repeated; the rest is in the result itself."""


class Settled(Struct, frozen=True):
    """A call and its result."""

    call: ToolCall
    result: ToolResult


def render(settled: Sequence[Settled], words: Phrases) -> str:
    """The results as an answer: one as a sentence or a list, several as a list with one line for each call."""
    lines = {_line(one, words): one for one in settled}  # a call that was made twice with one result is told once
    if len(lines) == 1:
        return _sentence(settled[0], words)
    return "\n".join(map(_bullet, lines))


def list_tools(opening: str, tools: Sequence[ToolOffer], words: Phrases) -> str:
    """The tools by name, with what each is for."""
    lines = [_bullet(f"{label(tool.name)}: {_first_line(tool.description)}") for tool in tools[:_MOST_TOOLS]]
    if len(tools) > _MOST_TOOLS:
        lines.append(_bullet(words.more.format(count=len(tools) - _MOST_TOOLS)))
    return "\n".join([opening, *lines])


def label(name: str) -> str:
    """The name of a tool or a field as words."""
    return name.rpartition(":")[2].replace("_", " ").strip() or name


def scalar(value: Any, words: Phrases) -> str:
    match value:
        case bool():
            return words.yes if value else words.no
        case None:
            return "–"
        case _:
            return str(value)


def _sentence(one: Settled, words: Phrases) -> str:
    if one.result.outcome != "ok":
        return _capital(_failure(one, words))
    match one.result.content:
        case None:
            return _capital(words.nothing_returned.format(call=_call(one.call)))
        case str(text) if not text.strip():
            return _capital(words.nothing_returned.format(call=_call(one.call)))
        case dict() | list() as value if not value:
            return words.nothing_found
        case str(text) if any(map(str.isspace, text.strip())):
            return _prose(text.strip(), words)
        case dict() | list() as value:
            return _capital(_structure(value, words))
        case value:
            return words.result.format(call=_call(one.call), value=scalar(value, words))


def _line(one: Settled, words: Phrases) -> str:
    """One of several results: the call, and what it returned."""
    if one.result.outcome != "ok":
        return _failure(one, words)
    match one.result.content:
        case None:
            return words.nothing_returned.format(call=_call(one.call))
        case dict() | list() as value if not value:
            return f"{_call(one.call)}: {words.nothing_found}"
        case str(text):
            return f"{_call(one.call)}: {_cut(text.strip(), words)}"
        case dict() | list() as value:
            text = _structure(value, words)
            return f"{_call(one.call)}:\n{_indented(text)}" if "\n" in text else f"{_call(one.call)}: {text}"
        case value:
            return f"{_call(one.call)}: {scalar(value, words)}"


def _failure(one: Settled, words: Phrases) -> str:
    result = one.result
    why = result.error.message if result.error is not None else result.text
    said = words.failures.get(result.outcome, words.failures["failed"])
    text = said.format(call=_call(one.call), why=_ended(why.strip()))
    return f"{text} {words.still_running}" if result.still_running else text


def _call(call: ToolCall) -> str:
    """The call in words: its tool, and the values that it was given."""
    try:
        arguments = call.arguments if isinstance(call.arguments, dict) else parse_object(call.arguments or "{}")
    except JSONTextError:
        arguments = {}
    values = [str(value) for value in arguments.values() if isinstance(value, str | int | float)]
    return f"{label(call.name)} ({', '.join(values)})" if values else label(call.name)


def _structure(value: Any, words: Phrases) -> str:
    """An object or a list: in one line where that is short, else as a list."""
    short = _in_line(value, words)
    if short is not None:
        return _ended(short)
    items = value.items() if isinstance(value, dict) else [(None, item) for item in value]
    lines = [_item(key, item, words) for key, item in items]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], _bullet(words.more.format(count=len(lines) - _MOST_LINES))]
    return "\n".join(lines)


def _item(key: str | None, value: Any, words: Phrases) -> str:
    name = "" if key is None else f"{label(key)}: "
    short = _in_line(value, words, most=6)
    if short is not None:
        return _bullet(name + short)
    return _bullet(
        name.rstrip() + ("\n" if name else "") + _indented(_structure(value, words)).removeprefix("" if name else "  ")
    )


def _in_line(value: Any, words: Phrases, most: int = 4) -> str | None:
    """The value in one line, or None if it is too long or too deep for that."""
    match value:
        case dict() if len(value) <= most and not any(isinstance(part, dict | list) for part in value.values()):
            text = ", ".join(f"{label(key)}: {scalar(part, words)}" for key, part in value.items())
        case list() if len(value) < most and not any(isinstance(part, dict | list) for part in value):
            text = _joined([scalar(part, words) for part in value], words)
        case dict() | list():
            return None
        case _:
            text = scalar(value, words)
    return text if len(text) <= _LONGEST_LINE * 2 and "\n" not in text else None


def _joined(parts: list[str], words: Phrases) -> str:
    return f" {words.conjunction} ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def _prose(text: str, words: Phrases) -> str:
    """What a tool said in words, as a sentence; several lines stay as they are."""
    return _cut(text, words) if "\n" in text else _capital(_ended(_cut(text, words)))


def _cut(text: str, words: Phrases) -> str:
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[:_LONGEST_TEXT].rstrip()}\n{words.more_text.format(count=len(text) - _LONGEST_TEXT)}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


def _bullet(text: str) -> str:
    return f"- {text}"


def _ended(text: str) -> str:
    return f"{text}." if text and (text[-1].isalnum() or text[-1] in ")]'\"") else text


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0]
