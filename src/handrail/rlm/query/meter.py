"""Counting what a query uses while it is under way, and asking no more once there is nothing left."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from handrail.core.events import ModelEvent
from handrail.core.messages import AssistantMessage, Conversation
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model, provider_of, takes_tools
from handrail.rlm.query.spending import NOTHING, Spending
from handrail.rlm.values import UsageSummary


@dataclass(slots=True)
class QueryMeter:
    """Follows the conversation of one query: each reply in it is counted once, also what is on record of a query
    that is taken up again."""

    spend: Spending
    model: str
    seen: int
    """Messages that were looked at: at first, those before the first reply."""
    summary: UsageSummary = field(default_factory=UsageSummary)

    def take(self, conversation: Conversation) -> None:
        messages = conversation.messages
        if len(messages) <= self.seen:
            return
        for message in messages[self.seen :]:
            if isinstance(message, AssistantMessage):
                model = message.model or self.model
                self.summary.count(model, message.usage or NOTHING)
                self.spend.add(model, message.usage)
        self.seen = len(messages)


@dataclass(frozen=True, slots=True)
class MeteredModel:
    """A model that is asked only as long as something is left to spend."""

    model: Model
    spend: Spending

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def provider(self) -> str | None:
        return provider_of(self.model)

    @property
    def takes_tools(self) -> bool:
        return takes_tools(self.model)

    @property
    def searches_tools(self) -> bool:
        return bool(getattr(self.model, "searches_tools", False))

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model, or raise `LimitExceeded` if nothing is left to spend."""
        self.spend.check()
        return self.model.stream(request)
