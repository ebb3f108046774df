"""Tool results as text, without a model: every value as the tool returned it.

A value without a name (a number, a word, a list) stands beside the call that returned it: a small model may have called
another tool than the person meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.jsontext import JSONTextError, parse, parse_object
from handrail.core.model_request import ToolOffer
from handrail.models.local.answers.phrases import LanguagePhrases

_LONGEST_LINE = 160
"""Characters of an object or a list that stands in one line."""
_LONGEST_ARGUMENT = 40
"""Characters of an argument that are repeated."""
_FEWEST_WORDS = 4
"""Words from which on a text result is a sentence of its own, and not a value."""
_MOST_LINES = 40
_MOST_TOOLS = 12
_SENTENCE_END = tuple(".!?…:;。！？")
_HAS_PUNCTUATION = re.compile(r"[,.;:!?](\s|$)|\n")
_LONGEST_TEXT = 4000
"""Characters of a text result that are repeated; the rest is in the result itself."""


class SettledCall(Struct, frozen=True):
    """A call and its result."""

    call: ToolCall
    result: ToolResult


def render_results(settled: Sequence[SettledCall], words: LanguagePhrases) -> str:
    """The results as an answer: one as a sentence or a list, several as a list with one line for each call."""
    lines = {_line(one, words): one for one in settled}  # a call that was made twice with one result is told once
    if len(lines) == 1:
        return _sentence(settled[0], words)
    return "\n".join(map(_bullet, lines))


def list_tools(opening: str, tools: Sequence[ToolOffer], words: LanguagePhrases) -> str:
    """The tools by name, with what each is for."""
    lines = [_bullet(_described(tool)) for tool in tools[:_MOST_TOOLS]]
    if len(tools) > _MOST_TOOLS:
        lines.append(_bullet(words.more.format(count=len(tools) - _MOST_TOOLS)))
    return "\n".join([opening, *lines])


def tool_label(name: str) -> str:
    """The name of a tool as words."""
    return name.rpartition(":")[2].replace("_", " ").strip() or name


def _described(tool: ToolOffer) -> str:
    first_line = tool.description.strip().split("\n", 1)[0]
    return f"{tool_label(tool.name)}: {first_line}" if first_line else tool_label(tool.name)


def _sentence(one: SettledCall, words: LanguagePhrases) -> str:
    if one.result.outcome != "ok":
        return _capital(_failure(one, words))
    call = _call(one.call)
    match _content(one.result):
        case list() as value if not value:
            return words.nothing_found
        case None:
            return _capital(words.nothing_returned.format(call=call))
        case str(text) if _is_prose(text):
            return _cut(text, words)
        case value:
            line = _in_line(value, words)
            if line is None:
                heading = [] if isinstance(value, dict) else [_capital(f"{call}:")]
                return "\n".join([*heading, *_items(value, words)])
            if not isinstance(value, dict):
                return _ended(words.result.format(call=call, value=line))
            # A first key that is no identifier may be a value, such as the name of a file.
            return _ended(_capital(line) if str(next(iter(value))).isidentifier() else line)


def _is_prose(text: str) -> bool:
    """Whether a text speaks for itself; otherwise it is a value, like a price or a name."""
    is_long = len(text.split()) >= _FEWEST_WORDS or len(text) > _LONGEST_TEXT
    return is_long or "\n" in text or text.endswith(_SENTENCE_END)


def _line(one: SettledCall, words: LanguagePhrases) -> str:
    """One of several results: the call, and what it returned."""
    if one.result.outcome != "ok":
        return _failure(one, words)
    call = _call(one.call)
    match _content(one.result):
        case list() as value if not value:
            return f"{call}: {words.nothing_found}"
        case None:
            return words.nothing_returned.format(call=call)
        case value:
            return _item(f"{call}:", value, words, most=4)


def _content(result: ToolResult) -> Any:
    """What the tool returned, or None if that is empty. A text that is JSON, as MCP servers return it, is read."""
    content = result.content
    if isinstance(content, str):
        content = content.strip()
        if content.startswith(("{", "[")):
            with suppress(JSONTextError):
                parse(content)  # it refuses what is nested too deep
                content = json.loads(content, parse_float=str, parse_int=str)  # numbers keep their spelling
    return None if content in ("", {}) else content


def _failure(one: SettledCall, words: LanguagePhrases) -> str:
    result = one.result
    why = (result.error.message if result.error is not None else result.text).strip()
    said = words.failures.get(result.outcome, words.failures["failed"])
    said = said if why else said.replace(": {why}", ".")
    text = said.format(call=_call(one.call), why=_ended(why))
    return f"{text} {words.still_running}" if result.still_running else text


def _call(call: ToolCall) -> str:
    """The call in words: its tool, and the values that it was given."""
    try:
        arguments = call.arguments if isinstance(call.arguments, dict) else parse_object(call.arguments or "{}")
    except JSONTextError:
        arguments = {}
    scalars = [value for value in arguments.values() if isinstance(value, str | int | float)]
    shown = [_shortened(str(value)) for value in scalars if not isinstance(value, bool) and value != ""]
    return f"{tool_label(call.name)} ({', '.join(shown)})" if shown else tool_label(call.name)


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_ARGUMENT else f"{line[:_LONGEST_ARGUMENT].rstrip()}…"


def _items(value: dict[str, Any] | list[Any], words: LanguagePhrases) -> list[str]:
    """An object or a list as lines, one for each member, with what is inside it indented."""
    members = value.items() if isinstance(value, dict) else [(None, member) for member in value]
    items = [_bullet(_item("" if key is None else f"{_field(key)}:", member, words)) for key, member in members]
    if len(items) > _MOST_LINES:
        items = [*items[:_MOST_LINES], _bullet(words.more.format(count=len(items) - _MOST_LINES))]
    return [line for item in items for line in item.split("\n")]


def _item(name: str, value: Any, words: LanguagePhrases, most: int = 6) -> str:
    """A value beside its name, or below it if it takes several lines."""
    line = _in_line(value, words, most)
    if line is not None:
        return f"{name} {line}".strip()
    lines = _cut(value.strip(), words).split("\n") if isinstance(value, str) else _items(value, words)
    return "\n  ".join([name, *lines] if name else lines)


def _in_line(value: Any, words: LanguagePhrases, most: int = 4) -> str | None:
    """The value in one line, or None if it is too long or too deep for that."""
    match value:
        case None | "":
            return words.none
        case bool():
            return words.yes if value else words.no
        case dict() | list() if not value:
            return words.none
        case dict() if len(value) <= most:
            parts = _in_one_line(list(value.values()), words)
            fields = [f"{_field(key)}: {part}" for key, part in zip(value, parts or (), strict=False)]
            line = ", ".join(fields) if parts else None
        case list() if len(value) < most:
            parts = _in_one_line(value, words)
            line = f" {words.conjunction} ".join(filter(None, [", ".join(parts[:-1]), parts[-1]])) if parts else None
        case dict() | list():
            return None
        case _:
            text = str(value).strip()
            return None if "\n" in text or len(text) > _LONGEST_TEXT else text
    return line if line is not None and len(line) <= _LONGEST_LINE else None


def _in_one_line(values: list[Any], words: LanguagePhrases) -> list[str] | None:
    """Values that stand beside each other, or None if nobody could tell where one ends."""
    if any(isinstance(value, dict | list) and value for value in values):
        return None
    parts = [_in_line(value, words) for value in values]
    clear = [part for part in parts if part is not None and (len(parts) == 1 or not _HAS_PUNCTUATION.search(part))]
    return clear if len(clear) == len(parts) else None


def _field(key: Any) -> str:
    """The name of a field as words; a key that is no identifier as it is."""
    name = str(key)
    return name.replace("_", " ").strip() or name if name.isidentifier() else name


def _cut(text: str, words: LanguagePhrases) -> str:
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[:_LONGEST_TEXT].rstrip()}\n{words.more_text.format(count=len(text) - _LONGEST_TEXT)}"


def _bullet(text: str) -> str:
    return f"- {text}"


def _ended(text: str) -> str:
    return text if not text or text.endswith(_SENTENCE_END) else f"{text}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
