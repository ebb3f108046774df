"""Results as a model is sent them: without the words that handles stand for."""

from __future__ import annotations

from msgspec.structs import replace

from handrail.core.messages import Message, ResultMessage


class ShownResults:
    """Makes each once, so that what a codec has made of a message stays good."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[int, tuple[ResultMessage, ResultMessage]] = {}
        """By the identity of the message, which is kept alive with it."""

    def without_words(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        return tuple(
            self._shown(message) if isinstance(message, ResultMessage) and message.result.withheld else message
            for message in messages
        )

    def _shown(self, message: ResultMessage) -> ResultMessage:
        if (made := self._made.get(id(message))) is None:
            made = message, replace(message, result=replace(message.result, withheld=()))
            self._made[id(message)] = made
        return made[1]
