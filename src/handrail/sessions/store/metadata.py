"""What is known of a saved conversation without reading it: `metadata.toml`.

This file is what makes a save count. `bytes` says how much of `messages.jsonl`
belongs to the conversation; what lies behind it was being written when the
machine stopped. Without `bytes` the whole file belongs to it.
"""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from handrail.core.durable_files import write_atomically
from handrail.sessions.store.content import ContentError

FORMAT = 1


class ConversationChoices(Struct, frozen=True, kw_only=True):
    """How a conversation goes on: what a person chose for it, and what a program that takes it up must know."""

    model: str = ""
    """The name of the model in the configuration; `""` is the default one."""
    ensembles: tuple[str, ...] | None = None
    """The ensembles that are offered; None offers all."""
    off: tuple[str, ...] = ()
    """Tools that are switched off, by their scoped names."""
    once: str = ""
    """The key under which words were last said, so that they are not said twice."""
    working: bool = False
    """Whether a turn was under way at this save. Then the record may know more of it."""


class ConversationMetadata(Struct, frozen=True, kw_only=True):
    id: str
    title: str = ""
    created: datetime
    updated: datetime
    messages: int = 0
    bytes: int | None = None
    revision: int = 0
    """Goes up with every save, so that a process sees that another one has saved."""
    forked_from: str | None = None
    chosen: ConversationChoices = ConversationChoices()
    format: int = FORMAT
    problem: str = ""
    """Why the conversation cannot be read, in a list. It is written nowhere."""


def read(path: Path) -> ConversationMetadata:
    """The metadata of a conversation.

    Raises:
        ContentError: It cannot be read, or a later version wrote it.
    """
    try:
        found = msgspec.convert(tomllib.loads(path.read_text("utf-8")), ConversationMetadata)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ContentError(f"{str(path)!r} cannot be read: {error}") from error
    if found.format > FORMAT:
        raise ContentError(f"{str(path)!r} was written by a later version of handrail; use that one")
    return found


def damaged(path: Path, why: ContentError) -> ConversationMetadata:
    """What is left to say of one that cannot be read: where it lies, and since when."""
    try:
        changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except OSError:
        changed = moment(0)
    id = path.parent.name
    return ConversationMetadata(id=id, title=id, created=changed, updated=changed, problem=str(why))


def write(path: Path, metadata: ConversationMetadata) -> None:
    lines = [f"{name} = {_value(getattr(metadata, name))}" for name in _NAMES if getattr(metadata, name) is not None]
    if metadata.chosen != ConversationChoices():
        chosen = msgspec.to_builtins(metadata.chosen)
        lines += ["", "[chosen]", *(f"{name} = {_value(value)}" for name, value in chosen.items() if value is not None)]
    write_atomically(path, ("\n".join(lines) + "\n").encode())


def moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


_NAMES = ("format", "id", "title", "created", "updated", "messages", "bytes", "revision", "forked_from")


def _value(value: Any) -> str:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
    # JSON's escapes are TOML's too, but TOML wants this one more escaped.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
