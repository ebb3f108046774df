"""A model that says what a test wrote."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from handrail.core.calls import ToolCall
from handrail.core.errors import ModelError
from handrail.core.events import CallRequested, ModelEvent, TextDelta
from handrail.core.messages import ModelRequest


class ScriptedModel:
    """Gives one scripted reply per request, in order, and keeps the requests.

    ScriptedModel([call("add", a=1, b=2)], [text("3")])
    """

    def __init__(self, *replies: list[ModelEvent]) -> None:
        self._replies = list(replies)
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        if len(self.requests) > len(self._replies):
            raise ModelError(f"the script has {len(self._replies)} replies and was asked for one more")
        for event in self._replies[len(self.requests) - 1]:
            yield event


def text(words: str) -> ModelEvent:
    return TextDelta(text=words)


def call(name: str, id: str = "", /, **arguments: Any) -> ModelEvent:
    """A call as a model would write it; without an id the runner gives it one."""
    return CallRequested(call=ToolCall(id, name, arguments))
