"""Which of many tools to show a model that can tell only a few apart.

Tools are ranked by how near their words are to what the user said last. Tools that
the conversation has called stay in view.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from handrail.core.messages import InvocationMessage, Message, UserMessage
from handrail.core.model_request import ModelRequest, NamedTool, ToolOffer
from handrail.core.ports import Embedder

SHOWN = 8


class LocalToolRouter:
    """Ranks by an `Embedder`, which is made when it is first needed: that takes a moment."""

    def __init__(self, embedder: Callable[[], Embedder] | None, shown: int = SHOWN) -> None:
        self._make = embedder
        self._embedder: Embedder | None = None
        self._shown = shown

    def choose(self, request: ModelRequest) -> tuple[ToolOffer, ...]:
        """The tools to show, in the order in which they were offered."""
        if isinstance(choice := request.tool_choice, NamedTool):
            return tuple(tool for tool in request.tools if tool.name == choice.name)
        if len(request.tools) <= self._shown or self._make is None:
            return request.tools
        self._embedder = self._embedder or self._make()
        scores = self._scores(self._embedder, request)
        best = sorted(range(len(scores)), key=lambda place: (-scores[place], place))[: self._shown]
        return tuple(request.tools[place] for place in sorted(best))

    def _scores(self, embedder: Embedder, request: ModelRequest) -> list[float]:
        asked, *offered = embedder.embed([_question(request.messages), *map(_words, request.tools)])
        called = {message.call.name for message in request.messages if isinstance(message, InvocationMessage)}
        return [
            math.inf if tool.name in called else sum(a * b for a, b in zip(asked, vector, strict=True))
            for tool, vector in zip(request.tools, offered, strict=True)
        ]


def _question(messages: Sequence[Message]) -> str:
    said = (message.text for message in reversed(messages) if isinstance(message, UserMessage))
    return next(said, "")


def _words(tool: ToolOffer) -> str:
    properties = tool.input_schema.get("properties")
    named = properties if isinstance(properties, dict) else {}
    values = [
        str(value)
        for part in named.values()
        if isinstance(part, dict) and isinstance(part.get("enum"), list)
        for value in part["enum"]
    ]
    return f"{tool.name.replace('_', ' ')}. {tool.description}. {' '.join([*named, *values])}"
