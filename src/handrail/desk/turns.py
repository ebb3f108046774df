"""The boundaries of turns in a conversation, and what of it can be kept. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from handrail.core.errors import UsageError
from handrail.core.messages import (
    AssistantMessage,
    Content,
    Conversation,
    DocumentMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    Text,
    UserMessage,
)
from handrail.desk.values import AttachedFile
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
    """The index of the first message of each turn."""
    found: list[int] = []
    for at, message in enumerate(messages):
        if isinstance(message, UserMessage):
            while at > 0 and _is_attached(messages[at - 1]):
                at -= 1
            found.append(at)
    return found


def _is_attached(message: Message) -> bool:
    """Whether it goes with the words behind it. One that was read from an address was given by itself, and stays."""
    return isinstance(message, DocumentMessage) and message.source is UNSET


def last_spoken_index(messages: Sequence[Message]) -> int:
    """The index of the last message of the person."""
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
    """The number of messages that two conversations have in common at their beginning."""
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


MOST_FILES = 20
MOST_BYTES = 20 * 1024 * 1024
_LONGEST_NAME = 200
_PICTURES_OF_TEXT = "image/svg+xml"


def messages_from_input(text: str, attached: Sequence[AttachedFile], at: int) -> tuple[Message, ...]:
    """The messages of one turn of a person; the last is what they said.

    Raises:
        UsageError: There is nothing in it, or too much.
    """
    if not text.strip() and not attached:
        raise UsageError("the prompt is empty; write some text or attach a file")
    if len(attached) > MOST_FILES or sum(len(each.data) for each in attached) > MOST_BYTES:
        raise UsageError(f"at most {MOST_FILES} files and {MOST_BYTES // 1024**2} MB go with one message; give less")
    read = [(each, _text(each)) for each in attached]
    documents = [DocumentMessage(_name(each), text, at) for each, text in read if text is not None]
    media = [Media(media_type=each.media_type, data=each.data, name=_name(each)) for each, text in read if text is None]
    words: tuple[Content, ...] = (Text(text),) if text.strip() else ()
    return (*documents, UserMessage((*words, *media), at))


def title_from_messages(messages: Sequence[Message]) -> str:
    """A title for a turn without words: the name of its first file."""
    for message in messages:
        match message:
            case DocumentMessage(name=name):
                return name
            case UserMessage(content=(Media(name=name), *_)):
                return name
    return ""


def _text(attached: AttachedFile) -> str | None:
    """What a file says, if it is text."""
    kind = attached.media_type.partition(";")[0].strip().lower()
    if kind.startswith(("image/", "audio/", "video/")) and kind != _PICTURES_OF_TEXT:
        return None
    if b"\0" in attached.data:
        return None
    try:
        return attached.data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _name(attached: AttachedFile) -> str:
    """Its last part; a browser may give a whole path."""
    return attached.name.replace("\\", "/").rpartition("/")[2][:_LONGEST_NAME] or "file"
