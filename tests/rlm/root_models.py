"""A root model that says what a test wrote, and what else tests of whole runs need."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from handrail.core.errors import ModelError
from handrail.core.events import ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import AssistantMessage, Usage, UserMessage
from handrail.core.model_request import ModelRequest


class Root:
    """Its n-th turn is read from what was said and not counted, so it goes on where a run was cut off."""

    def __init__(self, *replies: str, name: str = "root", usage: Usage = Usage()) -> None:
        self.name = name
        self._replies = replies
        self._usage = usage
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        turn = sum(isinstance(message, AssistantMessage) for message in request.messages)
        if turn >= len(self._replies):
            raise ModelError(f"the script has {len(self._replies)} replies")
        yield TextDelta(text=self._replies[turn])
        yield ReplyFinished(stop="end", model=self.name, usage=self._usage)

    def read(self, turn: int = -1) -> str:
        """What it read last before a turn."""
        message = self.requests[turn].messages[-1]
        assert isinstance(message, UserMessage)
        return message.text


class Echo:
    """Answers every question with the question in capitals."""

    def __init__(self, name: str = "echo", usage: Usage = Usage()) -> None:
        self.name = name
        self._usage = usage
        self.asked: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        message = request.messages[-1]
        assert isinstance(message, UserMessage)
        self.asked.append(message.text)
        yield TextDelta(text=message.text.upper())
        yield ReplyFinished(stop="end", model=self.name, usage=self._usage)


def repl(*blocks: str, after: str = "") -> str:
    """A reply with code in it."""
    return "\n".join((*(f"```repl\n{block}\n```" for block in blocks), after))


def ready(expression: str) -> str:
    return repl(f'answer["content"] = {expression}\nanswer["ready"] = True')
