"""History without what is stale: the result of a call that a later one has superseded is left out.

Only when asked, because a provider's cache of the history is of no use after a
change in its middle. Calls and their results stay in pairs: a superseded result
is still there, and says that it was superseded. What a person must know (a call
in doubt, work that still runs) is never taken away.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.core.messages import Conversation, InvocationMessage, Message, ResultMessage

SUPERSEDED = "[superseded by a later call]"


@dataclass(frozen=True, slots=True)
class HistoryCall:
    """A call of the history with its answer."""

    name: str
    arguments: Mapping[str, Any]
    result: ToolResult


Rule = Callable[[HistoryCall, HistoryCall], bool]
"""Whether the first, which is newer and went well, makes the result of the second stale."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """The same call again: `Repeated("list_folder", "get_weather")`; without names, of any tool."""

    names: frozenset[str]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", frozenset(names))

    def __call__(self, newer: HistoryCall, older: HistoryCall) -> bool:
        known = not self.names or newer.name in self.names
        return known and newer.name == older.name and newer.arguments == older.arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class SamePlace:
    """A file read or written again, by the argument that names it.

    A read of a part supersedes only an earlier read of the same part; a write, and a
    read of the whole, supersede everything that was read or written there before.
    """

    argument: str = "path"
    reads: frozenset[str] = frozenset({"read_file"})
    writes: frozenset[str] = frozenset({"write_file"})

    def __call__(self, newer: HistoryCall, older: HistoryCall) -> bool:
        place = _place(newer, self.argument)
        if place is None or place != _place(older, self.argument) or older.name not in self.reads | self.writes:
            return False
        if newer.name in self.writes:
            return True
        if newer.name not in self.reads:
            return False
        part = _without(newer, self.argument)
        return not part or (newer.name == older.name and part == _without(older, self.argument))


@dataclass(frozen=True, slots=True, kw_only=True)
class WiderListing:
    """A folder listed again with no more filters and at least as deep."""

    name: str = "list_folder"
    argument: str = "path"
    filters: str = "filters"
    recurse: str = "recurse"

    def __call__(self, newer: HistoryCall, older: HistoryCall) -> bool:
        if not newer.name == older.name == self.name:
            return False
        place = _place(newer, self.argument)
        fewer = all(each in _list(older, self.filters) for each in _list(newer, self.filters))
        as_deep = bool(newer.arguments.get(self.recurse)) or not older.arguments.get(self.recurse)
        names = (self.argument, self.filters, self.recurse)
        alike = _without(newer, *names) == _without(older, *names)
        return place is not None and place == _place(older, self.argument) and fewer and as_deep and alike


def trimmed(conversation: Conversation, rules: Iterable[Rule]) -> Conversation:
    """Return the conversation with superseded results replaced by short notes."""
    rules = tuple(rules)
    settled = _settled(conversation)
    stale: set[str] = set()
    newer: list[HistoryCall] = []
    for call_id, older in reversed(settled.items()):
        if _may_go(older.result) and any(rule(later, older) for later in newer for rule in rules):
            stale.add(call_id)
        elif older.result.outcome == "ok":
            newer.append(older)
    if not stale:
        return conversation
    return replace(conversation, messages=tuple(_mentioned(message, stale) for message in conversation.messages))


def _settled(conversation: Conversation) -> dict[str, HistoryCall]:
    """Calls that have an answer, in the order in which they were made."""
    answers = {
        message.invocation_id: message.result for message in conversation.messages if isinstance(message, ResultMessage)
    }
    calls = [message.call for message in conversation.messages if isinstance(message, InvocationMessage)]
    return {
        call.id: HistoryCall(answers[call.id].name or call.name, arguments, answers[call.id])
        for call in calls
        if call.id in answers and (arguments := _arguments(call)) is not None
    }


def _arguments(call: ToolCall) -> dict[str, Any] | None:
    if isinstance(call.arguments, dict):
        return call.arguments
    try:
        return parse_object(call.arguments)
    except JSONTextError:
        return None


def _may_go(result: ToolResult) -> bool:
    return result.outcome not in ("in_doubt", "needs_confirmation") and not result.still_running


def _mentioned(message: Message, stale: set[str]) -> Message:
    if not isinstance(message, ResultMessage) or message.invocation_id not in stale:
        return message
    result = replace(message.result, content=SUPERSEDED, warnings=(), attachments=(), spilled=None)
    return replace(message, result=result)


def _place(settled: HistoryCall, argument: str) -> str | None:
    value = settled.arguments.get(argument)
    return posixpath.normpath(value) if isinstance(value, str) else None


def _without(settled: HistoryCall, *names: str) -> dict[str, Any]:
    return {name: value for name, value in settled.arguments.items() if name not in names}


def _list(settled: HistoryCall, argument: str) -> list[Any]:
    value = settled.arguments.get(argument)
    return value if isinstance(value, list) else []
