"""What a run has used of its budget, all queries below it included, and asking no more once there is nothing left."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from handrail.core.errors import LimitExceeded, UsageError
from handrail.core.events import ModelEvent
from handrail.core.messages import AssistantMessage, Conversation, Usage
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Clock, Model, SystemClock, holds_to_schema, provider_of, takes_tools
from handrail.rlm.values import RLMChatCompletion, UsageSummary

logger = logging.getLogger(__name__)

NOTHING = Usage()


def _unheard() -> None:
    """Reports to nobody."""


class Spending:
    """Counts every reply of every model, and says when the budget is used up. A parent also counts its children."""

    def __init__(
        self,
        max_cost: float | None = None,
        max_tokens: int | None = None,
        deadline: float | None = None,
        *,
        clock: Clock = SystemClock(),
        above: Spending | None = None,
    ) -> None:
        """`max_cost` is in US dollars, as far as prices are known; `deadline` is on the clock's monotonic time."""
        for name, value in (("max_cost", max_cost), ("max_tokens", max_tokens)):
            if value is not None and not value > 0:
                raise UsageError(f"{name} must be more than 0, not {value!r}")
        self.max_cost = max_cost
        self.max_tokens = max_tokens
        self.deadline = deadline
        self._clock = clock
        self._above = above
        self._seconds = 0.0 if deadline is None else deadline - clock.monotonic()
        self._summary = UsageSummary()
        self._runs: set[str] = set()
        """Whose replies are counted as they come: only those that somebody named, and may hear of again."""
        self._unpriced: set[str] = set()
        self.calls: int = 0
        self.tokens: int = 0
        self.cost: float = 0.0
        self.in_flight: int = 0
        """Queries that are being answered now."""
        self.queries: int = 0
        """Queries so far, those in flight included."""
        self.on_begin: Callable[[], None] = _unheard
        """Told of each query that is begun, here or below."""

    def below(self) -> Spending:
        """The spending of a run that this one began: it counts its own, and may use what is left here."""
        return Spending(clock=self._clock, above=self)

    @property
    def whole(self) -> Spending:
        """The spending of the outermost run."""
        return self if self._above is None else self._above.whole

    def add(self, model: str, usage: Usage | None, calls: int = 1) -> None:
        """Count what a model has said."""
        self._summary.count(model, usage or NOTHING, calls)
        self.calls += calls
        if usage is not None:
            self.tokens += usage.input_tokens + usage.output_tokens
            self.cost += usage.cost or 0.0
            if usage.cost is None and self.max_cost is not None:
                self._warn(model)
        if self._above is not None:
            self._above.add(model, usage, calls)

    def _warn(self, model: str) -> None:
        """A budget that holds nothing back must not look like one that does."""
        if model not in self._unpriced:
            self._unpriced.add(model)
            logger.warning(
                "the price of %r is not known, so no budget in dollars ends what it says; limit tokens", model
            )

    def heard(self, completion: RLMChatCompletion) -> None:
        """Count an answer out of the record. One that was given in this process is counted already."""
        if completion.run in self._runs:
            return
        self._runs.add(completion.run)
        used = completion.usage_summary
        self._summary.add(used)
        self.calls += used.total_calls
        self.tokens += used.total_input_tokens + used.total_output_tokens
        self.cost += used.total_cost or 0.0
        if self._above is not None:
            self._above.heard(completion)

    def begin(self, run: str) -> None:
        """A query is asked. Its replies are counted as they come, and `end` must follow."""
        if run:
            self._runs.add(run)
        self.queries += 1
        self.in_flight += 1
        self.on_begin()
        if self._above is not None:
            self._above.begin(run)

    def end(self) -> None:
        self.in_flight -= 1
        if self._above is not None:
            self._above.end()

    @contextmanager
    def asking(self, run: str) -> Iterator[None]:
        """Counts a query from `begin` to `end`."""
        self.begin(run)
        try:
            yield
        finally:
            self.end()

    def summary(self) -> UsageSummary:
        """The usage by model. It is a copy, which does not go on counting."""
        copy = UsageSummary()
        copy.add(self._summary)
        return copy

    def check(self) -> None:
        """Raise `LimitExceeded` if nothing more may be asked."""
        if self._above is not None:
            self._above.check()
        if self.max_cost is not None and self.cost >= self.max_cost:
            raise LimitExceeded("US dollars", self.max_cost)
        if self.max_tokens is not None and self.tokens >= self.max_tokens:
            raise LimitExceeded("tokens", self.max_tokens)
        if self.deadline is not None and self._clock.monotonic() >= self.deadline:
            raise LimitExceeded("seconds", round(self._seconds, 3))


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

    def holds_to_schema(self, *, tools: bool) -> bool:
        return holds_to_schema(self.model, tools=tools)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model, or raise `LimitExceeded` if nothing is left to spend."""
        self.spend.check()
        return self.model.stream(request)
