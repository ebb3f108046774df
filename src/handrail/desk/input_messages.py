"""What a person gives with their words: text becomes documents before the words, all else goes with them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from handrail.core.errors import UsageError
from handrail.core.messages import Content, DocumentMessage, Media, Message, Text, UserMessage
from handrail.desk.values import AttachedFile

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
        raise UsageError("there are no words and no files; say something")
    if len(attached) > MOST_FILES or sum(len(each.data) for each in attached) > MOST_BYTES:
        raise UsageError(f"at most {MOST_FILES} files and {MOST_BYTES // 1024**2} MB go with one message; give less")
    read = [(each, _text(each)) for each in attached]
    documents = [DocumentMessage(_name(each), text, at) for each, text in read if text is not None]
    media = [Media(media_type=each.media_type, data=each.data, name=_name(each)) for each, text in read if text is None]
    words: tuple[Content, ...] = (Text(text),) if text.strip() else ()
    return (*documents, UserMessage((*words, *media), at))


def title_from_messages(messages: Sequence[Message]) -> str:
    """For a turn without words: the name of its first file."""
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
