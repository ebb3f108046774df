"""What clients are not shown of an answer that they will come back with.

A reply that hands calls to the client may follow others, with calls that were run
here, and may hold such calls itself. The client sends back what it saw; the rest is
put in again from here. It is a help and no record: without it, as after a restart,
the conversation goes on with what the client has.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from handrail.core.calls import ToolCall
from handrail.core.messages import AssistantMessage, InvocationMessage, Message, ResultMessage
from handrail.providers.history import arguments_of

Key = tuple[str, frozenset[str]]
"""Whose it is, and the ids of the calls that the client was handed."""


class _Kept(Struct, frozen=True):
    messages: tuple[Message, ...]
    handed: dict[str, ToolCall]
    weight: int


class Memory:
    """The last so many answers, of so many characters together."""

    def __init__(self, most: int, characters: int) -> None:
        self._most = most
        self._characters = characters
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._weight = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, principal: str, messages: Sequence[Message], handed: Sequence[ToolCall]) -> None:
        """Remember what was said and done for somebody until they were handed these calls."""
        weight = sum(map(_weight, messages))
        if weight > self._characters:
            return
        key = principal, frozenset(call.id for call in handed)
        self._forget(key)
        self._kept[key] = _Kept(tuple(messages), {call.id: call for call in handed}, weight)
        self._weight += weight
        while len(self._kept) > self._most or self._weight > self._characters:
            self._forget(next(iter(self._kept)))

    def _forget(self, key: Key) -> None:
        if (kept := self._kept.pop(key, None)) is not None:
            self._weight -= kept.weight

    def restored(self, principal: str, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The messages of a client, with what it was not shown put in again wherever it is known."""
        return tuple(self._restored(principal, messages))

    def _restored(self, principal: str, messages: Sequence[Message]) -> Iterator[Message]:
        at = 0
        while at < len(messages):
            end = _end_of_reply(messages, at)
            calls = [message.call for message in messages[at:end] if isinstance(message, InvocationMessage)]
            kept = self._known(principal, calls) if calls else None
            yield from messages[at:end] if kept is None else kept.messages
            at = end

    def _known(self, principal: str, calls: list[ToolCall]) -> _Kept | None:
        """What belongs to these calls, if they are what they were."""
        key = principal, frozenset(call.id for call in calls)
        kept = self._kept.get(key)
        if kept is None or not all(_same(call, kept.handed[call.id]) for call in calls):
            return None
        self._kept.move_to_end(key)
        return kept


def _end_of_reply(messages: Sequence[Message], at: int) -> int:
    """Where the reply ends that begins here; any other message is one of its own."""
    end = at + 1
    if isinstance(messages[at], AssistantMessage):
        while end < len(messages) and isinstance(messages[end], InvocationMessage):
            end += 1
    return end


def _same(one: ToolCall, other: ToolCall) -> bool:
    return one.name == other.name and arguments_of(one) == arguments_of(other)


def _weight(message: Message) -> int:
    match message:
        case ResultMessage(result=result):
            return len(result.text) + sum(len(attachment.data) for attachment in result.attachments)
        case InvocationMessage(call=call):
            return len(call.arguments if isinstance(call.arguments, str) else str(call.arguments))
        case AssistantMessage(text=text, artefacts=artefacts):
            return len(text) + sum(len(str(artefact.data)) for artefact in artefacts)
    return 0
