"""What clients are not shown of an answer that they will come back with.

A reply that hands calls to the client may follow others, with calls that were run
here, and may hold such calls itself. The client sends back what it saw; the rest is
put in again from here. It is a help and no record: without it, as after a restart,
the conversation goes on with what the client has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import assert_never

from msgspec import Struct

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.calls import ToolCall
from handrail.core.messages import (
    AssistantMessage,
    DocumentMessage,
    InvocationMessage,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.models.history import arguments_of

_TAIL = 12
Key = tuple[str, frozenset[str]]
"""The owner of an answer, and the ids of the calls that its client was given."""


class _RememberedAnswer(Struct, frozen=True):
    messages: tuple[Message, ...]
    handed: dict[str, ToolCall]


class AnswerMemory:
    """The last so many answers, of so many characters together."""

    def __init__(self, most: int, characters: int) -> None:
        self._kept = BoundedMemory[Key, _RememberedAnswer](
            most, weight=lambda answer: weight_of(answer.messages), most_weight=characters, lru=True
        )

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, principal: str, messages: Sequence[Message], handed: Sequence[ToolCall]) -> None:
        """Remember what was said and done for somebody until they were handed these calls."""
        key = principal, frozenset(call.id for call in handed)
        self._kept[key] = _RememberedAnswer(tuple(messages), {call.id: call for call in handed})

    def restored(self, principal: str, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The messages of a client, with what it was not shown put in again wherever it is known."""
        found: list[Message] = []
        at = 0
        while at < len(messages):
            end = _end_of_reply(messages, at)
            calls = [message.call for message in messages[at:end] if isinstance(message, InvocationMessage)]
            kept = self._known(principal, calls) if calls else None
            if kept is None:
                found += messages[at:end]
            else:
                _take_back_shown(found, kept.messages)
                found += kept.messages
            at = end
        return tuple(found)

    def _known(self, principal: str, calls: list[ToolCall]) -> _RememberedAnswer | None:
        """What belongs to these calls, if they are what they were."""
        key = principal, frozenset(call.id for call in calls)
        kept = self._kept.get(key)
        if kept is None or not all(_same(call, kept.handed[call.id]) for call in calls):
            return None
        return kept


def _end_of_reply(messages: Sequence[Message], at: int) -> int:
    """The end of the reply that begins here; any other message is one of its own."""
    end = at + 1
    if isinstance(messages[at], AssistantMessage):
        while end < len(messages) and isinstance(messages[end], InvocationMessage):
            end += 1
    return end


def _take_back_shown(found: list[Message], kept: Sequence[Message]) -> None:
    """Remove from the end what the client was shown of an answer: calls of the node with their replies and results,
    which some APIs show. All of it is in what was kept. The client has them by the ids of their items."""
    ours = {shown_tail(message.id) for message in kept if isinstance(message, InvocationMessage)}
    while found and isinstance(last := found[-1], ResultMessage) and shown_tail(last.invocation_id) in ours:
        while found and isinstance(found[-1], ResultMessage | InvocationMessage) and _tail_in(found[-1], ours):
            found.pop()
        if found and isinstance(found[-1], AssistantMessage):
            found.pop()


def _tail_in(message: ResultMessage | InvocationMessage, tails: set[str]) -> bool:
    id = message.invocation_id if isinstance(message, ResultMessage) else message.id
    return shown_tail(id) in tails


def shown_tail(call: str) -> str:
    """What of a call's id, or of the id of the item that shows it, tells the call from others of its answer."""
    return re.sub(r"[^0-9a-z]", "", call.lower())[-_TAIL:] or "0"


def _same(one: ToolCall, other: ToolCall) -> bool:
    return one.name == other.name and arguments_of(one) == arguments_of(other)


def weight_of(messages: Sequence[Message]) -> int:
    """About how many characters they take."""
    return sum(map(_weight, messages))


def _weight(message: Message) -> int:
    match message:
        case UserMessage(content=content):
            return sum(len(part.text) if isinstance(part, Text) else len(part.data or b"") for part in content)
        case SupervisorMessage(text=text) | DocumentMessage(text=text):
            return len(text)
        case ResultMessage(result=result):
            return len(result.text) + sum(len(attachment.data) for attachment in result.attachments)
        case InvocationMessage(call=call):
            return len(call.arguments if isinstance(call.arguments, str) else str(call.arguments))
        case AssistantMessage(text=text, artefacts=artefacts):
            return len(text) + sum(len(str(artefact.data)) for artefact in artefacts)
    assert_never(message)
