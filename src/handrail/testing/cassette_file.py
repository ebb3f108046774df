"""The file of a cassette: JSON that people read, and that a recording of the same run writes the same again.

    {
      "cassette": 1,
      "tools": {"get_weather": {"description": …, "input_schema": …}},
      "entries": [
        {"model": …, "request": {"messages": […], "tools": ["get_weather"]}, "reply": {"text": …, "calls": […]}},
        {"tool": "get_weather", "arguments": {…}, "output": …},
        {"model": …, "request": {"after": 1, "messages": […]}, "reply": {"text": …}}
      ]
    }

`after` says that the messages begin with those of an entry and its reply. A tool that was shown in several forms has
each of them, the second as `get_weather#2`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from handrail.core.errors import UsageError
from handrail.testing.cassette_entries import OutputParts, Plain, ReplyParts, reply_as_messages

VERSION = 1
_AGAIN = "#"
"""Separates the name of a tool from the number of its form."""


def write_cassette(path: Path, entries: Sequence[Plain]) -> None:
    """Write entries whose requests are whole."""
    tools: dict[str, Plain] = {}
    written = [_shortened(entry, entries[:at], tools) for at, entry in enumerate(entries)]
    content = {"cassette": VERSION, "tools": tools, "entries": written}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=2, ensure_ascii=False)
    # Half of a character pair has no UTF-8; JSON can say it all the same.
    encoded = text if _is_encodable(text) else json.dumps(content, indent=2)
    path.write_text(encoded + "\n", encoding="utf-8")


def read_cassette(path: Path) -> list[Plain]:
    """The entries, their requests whole.

    Raises:
        FileNotFoundError: There is none.
        UsageError: It is no cassette, and why.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not a cassette: {error}; record it again") from error
    version = content.get("cassette") if isinstance(content, dict) else None
    if version != VERSION:
        raise UsageError(f"{path} is not a cassette of version {VERSION}: its version is {version!r}; record it again")
    entries: list[Plain] = []
    where = ""
    try:
        tools = msgspec.convert(content, _CassetteFile).tools
        for number, entry in enumerate(content["entries"], 1):
            where = f"entry {number}: "
            entries.append(_checked_entry(entry, entries, tools))
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(f"{path}: {where}{error}; correct it, or record it again") from error
    return entries


class _CassetteFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cassette: int
    tools: dict[str, Plain]
    entries: list[Plain]


class _RequestPart(msgspec.Struct, frozen=True):
    """A request in the file; the settings that it may have besides stand as they are."""

    messages: list[Plain]
    after: int | None = None
    tools: tuple[str, ...] = ()


class _ModelEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    model: str
    request: _RequestPart
    reply: ReplyParts


class _ToolEntry(OutputParts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tool: str
    arguments: Plain | str


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shortened(entry: Plain, before: Sequence[Plain], tools: dict[str, Plain]) -> Plain:
    if "reply" not in entry:
        return entry
    request: Plain = dict(entry["request"])
    messages = request.pop("messages")
    after, shared = _follows(messages, before)
    said: Plain = {"messages": messages[shared:]} if after is None else {"after": after, "messages": messages[shared:]}
    offered = [_form(name, tool, tools) for name, tool in request.pop("tools").items()]
    return {**entry, "request": {**said, **({"tools": offered} if offered else {}), **request}}


def _follows(messages: list[Any], before: Sequence[Plain]) -> tuple[int | None, int]:
    """The latest entry that the messages go on from, by its number, and how many of them it has."""
    for number in range(len(before), 0, -1):
        earlier = before[number - 1]
        if "reply" in earlier:
            told = _messages_of_entry(earlier)
            if messages[: len(told)] == told:
                return number, len(told)
    return None, 0


def _messages_of_entry(entry: Plain) -> list[Any]:
    return [*entry["request"]["messages"], *reply_as_messages(entry["reply"])]


def _form(name: str, tool: Plain, tools: dict[str, Plain]) -> str:
    """The key under which this form of a tool stands."""
    number, key = 1, name
    while tools.setdefault(key, tool) != tool:
        number += 1
        key = f"{name}{_AGAIN}{number}"
    return key


def _checked_entry(entry: Plain, before: Sequence[Plain], tools: Plain) -> Plain:
    """
    Raises:
        ValueError: Something in it does not go with the rest of the file.
        msgspec.ValidationError: It has not the form of an entry.
    """
    if entry.keys().isdisjoint(("model", "request", "reply")):
        msgspec.convert(entry, _ToolEntry)
        if ("output" in entry) == ("error" in entry):
            raise ValueError("a call has either an `output` or an `error`")
        return entry
    part = msgspec.convert(entry, _ModelEntry).request
    messages = part.messages
    if part.after is not None:
        if not 0 < part.after <= len(before) or "reply" not in before[part.after - 1]:
            raise ValueError(f"`after` names entry {part.after}, which is not a reply before this one")
        messages = [*_messages_of_entry(before[part.after - 1]), *messages]
    if missing := [key for key in part.tools if key not in tools]:
        raise ValueError(f"the tool {missing[0]!r} is not among the `tools` of the file")
    offered = {key.partition(_AGAIN)[0]: tools[key] for key in part.tools}
    settings = {name: value for name, value in entry["request"].items() if name not in _RequestPart.__struct_fields__}
    return {**entry, "request": {"messages": messages, "tools": offered, **settings}}
