"""Models of the scenarios: what they say follows from what they are told."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable

from handrail.core.events import CallRequested, ModelEvent, ReplyFinished
from handrail.core.messages import ResultMessage
from handrail.core.model_request import ModelRequest


class DecidingModel:
    """A `Model` that says what a function makes of the request, and keeps the requests."""

    def __init__(self, decide: Callable[[ModelRequest], Iterable[ModelEvent]], name: str = "deciding") -> None:
        self.name = name
        self._decide = decide
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        called = False
        for event in self._decide(request):
            called = called or isinstance(event, CallRequested)
            yield event
        yield ReplyFinished(stop="tool_calls" if called else "end", model=self.name)


def results(request: ModelRequest) -> list[str]:
    """What tools gave so far, as the model reads it."""
    return [message.result.text for message in request.messages if isinstance(message, ResultMessage)]
