"""Where a text occurs in the lines of a conversation. A line that cannot have it is not made into a message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from handrail.core.messages import InvocationMessage, Message, ResultMessage
from handrail.sessions.store.message_lines import Get, unpack_message

_AROUND = 40
_OF_JSON = frozenset('"\\{}[]:,')
"""Letters that stand otherwise in a line than in what a message says."""


def find_matches(lines: Iterable[bytes], needle: str, get: Get) -> Iterator[tuple[int, str]]:
    """The numbers of the messages that say it, each with the words around it. The needle is in folded case.

    Raises:
        ContentError: A line cannot be read.
    """
    is_plain = needle.isprintable() and needle == needle.strip() and _OF_JSON.isdisjoint(needle)
    for index, line in enumerate(lines):
        if not is_plain or _may_say(line, needle):
            text = _text(unpack_message(line, get))
            if (found := excerpt(text, needle)) is not None:
                yield index, found


def excerpt(text: str, needle: str) -> str | None:
    at = text.casefold().find(needle)
    if at < 0:
        return None
    return " ".join(text[max(0, at - _AROUND) : at + len(needle) + _AROUND].split())


def _may_say(line: bytes, needle: str) -> bool:
    """Long texts are elsewhere, and a text in several parts is read as one."""
    return b'"$text"' in line or line.count(b'"text":') > 1 or needle in line.decode("utf-8", "replace").casefold()


def _text(message: Message) -> str:
    match message:
        case ResultMessage(result=result):
            return result.text
        case InvocationMessage():
            return ""
    return message.text
