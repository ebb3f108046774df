"""A model that says what a test wrote."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from handrail.core.calls import ToolCall
from handrail.core.errors import ModelError
from handrail.core.events import CallRequested, ModelEvent, ReplyFinished, TextDelta
from handrail.core.model_request import ModelRequest


class ScriptedModel:
    """Gives one scripted reply per request, in order, and keeps the requests.

    ScriptedModel([call("add", a=1, b=2)], [text("3")])
    """

    def __init__(self, *replies: list[ModelEvent], name: str = "scripted", holds_schema: bool = False) -> None:
        """`holds_schema`: whether it counts as a service that holds replies to a schema, also beside tools."""
        self.name = name
        self._holds_schema = holds_schema
        self._replies = list(replies)
        self.requests: list[ModelRequest] = []

    def holds_to_schema(self, *, tools: bool) -> bool:
        return self._holds_schema

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        if len(self.requests) > len(self._replies):
            raise ModelError(f"the script has {len(self._replies)} replies and was asked for one more")
        reply = self._replies[len(self.requests) - 1]
        for event in reply:
            yield event
        if not any(isinstance(event, ReplyFinished) for event in reply):
            calls = any(isinstance(event, CallRequested) for event in reply)
            yield ReplyFinished(stop="tool_calls" if calls else "end", model=self.name)


def text(words: str) -> ModelEvent:
    return TextDelta(text=words)


def call(name: str, id: str = "", /, **arguments: Any) -> ModelEvent:
    """A call as a model would write it; without an id the runner gives it one."""
    return CallRequested(call=ToolCall(id, name, arguments))
