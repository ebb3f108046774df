"""Counting what a query uses while it is under way, and asking no more once there is nothing left."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from handrail.core.events import ModelEvent
from handrail.core.messages import AssistantMessage, Conversation
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model, provider_of, takes_tools
from handrail.rlm.query.spending import NOTHING, Spending
from handrail.rlm.values import UsageSummary


class QueryMeter:
    """Follows the conversation of one query: each reply in it is counted once, also what is on record of a query
    that is taken up again."""

    __slots__ = ("_model", "_seen", "_spend", "summary")

    def __init__(self, spend: Spending, model: str, asked: int) -> None:
        """`asked` is how many messages there were before the first reply."""
        self._spend = spend
        self._model = model
        self._seen = asked
        self.summary = UsageSummary()

    def take(self, conversation: Conversation) -> None:
        messages = conversation.messages
        if len(messages) <= self._seen:
            return
        for message in messages[self._seen :]:
            if isinstance(message, AssistantMessage):
                model = message.model or self._model
                self.summary.count(model, message.usage or NOTHING)
                self._spend.add(model, message.usage)
        self._seen = len(messages)


class MeteredModel:
    """A model that is asked only as long as something is left to spend."""

    def __init__(self, model: Model, spend: Spending) -> None:
        self._model = model
        self._spend = spend

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def provider(self) -> str | None:
        return provider_of(self._model)

    @property
    def takes_tools(self) -> bool:
        return takes_tools(self._model)

    @property
    def searches_tools(self) -> bool:
        return bool(getattr(self._model, "searches_tools", False))

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """
        Raises:
            LimitExceeded: Nothing is left.
        """
        self._spend.check()
        return self._model.stream(request)
