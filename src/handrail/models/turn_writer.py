"""How a conversation is written for a service: what the writers of all wires share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, assert_never

from handrail.core.calls import ToolResult
from handrail.core.messages import Content, Media, Text
from handrail.models.conversation_cache import WrittenTurns
from handrail.models.history import (
    AssistantTurn,
    ResultTurn,
    SystemTurn,
    Turn,
    UserTurn,
    system_text,
    without_system,
)
from handrail.models.profiles import Profile
from handrail.models.reply_layout import ReplyPiece, reply_pieces
from handrail.models.shared_encoding import as_media, describe_media
from handrail.models.tool_names import NameMap

OPENING = "(Begin.)"
"""Said for the user where nobody has spoken but the system, and a service wants the user to."""


class TurnWriter:
    """Writes turns as one wire takes them, and notes what could not be written. One per conversation."""

    system_apart: ClassVar[bool] = False
    """Whether the wire has a place of its own for what the system says first."""

    def __init__(self, profile: Profile, names: NameMap) -> None:
        self._profile = profile
        self._names = names
        self.missed: list[str] = []

    @classmethod
    def write(cls, *given: Any) -> WrittenTurns:
        """The turns, which come last of what is given. What comes before them makes the writer."""
        *own, history = given
        writer = cls(*own)
        system, rest = system_text(history) if cls.system_apart else ("", history)
        return WrittenTurns(writer.items(rest), tuple(writer.missed), system)

    def items(self, history: Sequence[Turn]) -> list[dict[str, Any]]:
        return [item for turn in history for item in self.turn(turn)]

    def turn(self, turn: Turn) -> Iterable[dict[str, Any]]:
        match turn:
            case UserTurn(content=content):
                return self.user(content)
            case SystemTurn(text=text):
                return ({"role": "system", "content": text},)
            case AssistantTurn():
                return self.reply(turn)
            case ResultTurn(results=results):
                return self.results(results)
        assert_never(turn)

    @abstractmethod
    def user(self, content: tuple[Content, ...]) -> Iterable[dict[str, Any]]: ...

    def reply(self, turn: AssistantTurn) -> Iterable[dict[str, Any]]:
        return [item for piece in reply_pieces(turn) if (item := self.piece(piece))]

    def piece(self, piece: ReplyPiece) -> dict[str, Any] | None:
        """A piece of a reply; None if it may not be sent. Only a wire with a `reply` of its own needs none."""
        raise NotImplementedError

    def results(self, results: tuple[ToolResult, ...]) -> Iterable[dict[str, Any]]:
        return map(self.result, results)

    @abstractmethod
    def result(self, result: ToolResult) -> dict[str, Any]: ...

    def content(self, part: Content) -> dict[str, Any]:
        """A part of what a user says, or an attachment of a result; in words where the wire does not take it."""
        if isinstance(part, Text):
            return self.text(part.text)
        return self.media(part) or self.text(describe_media(part, self.missed))

    def text(self, text: str) -> dict[str, Any]:
        return {"type": "text", "text": text}

    @abstractmethod
    def media(self, media: Media) -> dict[str, Any] | None:
        """An image or a file; None where this wire or model does not take it."""

    def attached(self, result: ToolResult) -> list[dict[str, Any]]:
        return [self.content(as_media(attachment)) for attachment in result.attachments]


class AlternatingWriter(TurnWriter):
    """Writes for wires in which only the user and the model speak, and take turns."""

    system_apart = True
    model_role: ClassVar[str] = "assistant"
    key: ClassVar[str] = "content"
    """The field of a message that has its blocks."""

    def items(self, history: Sequence[Turn]) -> list[dict[str, Any]]:
        history = without_system(history)
        messages: list[dict[str, Any]] = []
        if not history:
            self.add(messages, "user", self.user((Text(OPENING),)))
        for turn in history:
            self.add(messages, self.model_role if isinstance(turn, AssistantTurn) else "user", self.turn(turn))
        return messages

    def add(self, messages: list[dict[str, Any]], role: str, blocks: Iterable[dict[str, Any]]) -> None:
        """Append blocks to the last message if it is of the same role, else as a new message."""
        if not (found := list(blocks)):
            return
        if messages and messages[-1]["role"] == role:
            messages[-1][self.key].extend(found)
        else:
            messages.append({"role": role, self.key: found})

    def user(self, content: tuple[Content, ...]) -> Iterable[dict[str, Any]]:
        return [self.content(part) for part in content]
