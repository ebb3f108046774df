"""Where turns begin in a conversation, and what of it can be kept. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from handrail.core.messages import (
    AssistantMessage,
    Conversation,
    DocumentMessage,
    InvocationMessage,
    Message,
    ResultMessage,
    UserMessage,
)
from handrail.run.history import unanswered_calls


def turn_start_at(messages: Sequence[Message], upto: int) -> int:
    """Where the turn begins that the message of this number is in; all of them if it is behind the last.

    A turn begins with the documents that a person gave before they spoke. What stands before the first turn is kept.
    """
    if upto >= len(messages):
        return len(messages)
    starts = turn_starts(messages)
    return max((at for at in starts if at <= upto), default=starts[0] if starts else len(messages))


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """Where each turn begins."""
    found: list[int] = []
    for at, message in enumerate(messages):
        if isinstance(message, UserMessage):
            while at > 0 and isinstance(messages[at - 1], DocumentMessage):
                at -= 1
            found.append(at)
    return found


def last_spoken_index(messages: Sequence[Message]) -> int:
    """Where the person last said something."""
    return max((at for at, each in enumerate(messages) if isinstance(each, UserMessage)), default=-1)


def first_words_from(messages: Sequence[Message], at: int) -> str:
    """What the person said first, from there on."""
    return next((each.text for each in messages[max(at, 0) :] if isinstance(each, UserMessage)), "")


def answered_prefix_length(messages: Sequence[Message], upto: int) -> int:
    """The longest beginning, of at most so many messages, in which every call has its result."""
    count = 0
    open_calls: set[str] = set()
    for at, message in enumerate(messages[: max(upto, 0)]):
        match message:
            case InvocationMessage():
                open_calls.add(message.id)
            case ResultMessage():
                open_calls.discard(message.invocation_id)
        if not open_calls:
            count = at + 1
    if count < len(messages) and isinstance(messages[count], InvocationMessage):
        count -= 1  # nor the reply that made the calls: it would seem to have made none
    return max(count, 0)


def messages_to_answer(conversation: Conversation) -> Conversation:
    """What a model is asked to answer again: calls without results as they are, or all but its last words."""
    messages = conversation.messages
    if unanswered_calls(conversation):
        return conversation
    count = len(messages)
    while count and isinstance(messages[count - 1], AssistantMessage):
        count -= 1
    return conversation.upto(count)


def shared_prefix_length(one: Sequence[Message], other: Sequence[Message]) -> int:
    """How many messages they begin with alike."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left is not right and left != right:
            break
        count += 1
    return count


def begins_with(longer: Sequence[Message], shorter: Sequence[Message]) -> bool:
    """Whether it does. A result is alike if it answers the same call: the record and the program note different
    moments, and the record hides what looks like a secret."""
    pairs = zip(longer, shorter, strict=False)
    return len(longer) >= len(shorter) and all(left == right or _answer_the_same(left, right) for left, right in pairs)


def _answer_the_same(left: Message, right: Message) -> bool:
    match left, right:
        case ResultMessage(), ResultMessage():
            return left.invocation_id == right.invocation_id
    return False
