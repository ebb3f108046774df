"""Several models in the place of one: where the first does not answer, the next is asked.

Only while nothing of the reply was given out, and only for failures that say something
about the service and not about the request. It retries nothing itself; each model does.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from msgspec.structs import replace

from handrail.core.errors import ModelError, UsageError
from handrail.core.events import AttemptFailed, ModelEvent, Notice
from handrail.core.model_request import ModelRequest
from handrail.core.ports import (
    Clock,
    Model,
    SystemClock,
    count_tokens,
    holds_to_schema,
    provider_of,
    takes_tools,
    text_model_of,
    writes_code,
)
from handrail.models.retry_policy import OF_THE_SERVICE

_SPENT = frozenset({402, 429})
"""Refusals that another service does not share: nothing is left to spend here."""


class FailoverModel:
    """A `Model` that asks others in order. A failed one is skipped for `rest` seconds, or as long as its service asked.

    Its name is that of all of them, so that a tool reserved for one is not called by another.
    """

    def __init__(self, models: Sequence[Model], *, rest: float = 30.0, clock: Clock = SystemClock()) -> None:
        if not models:
            raise UsageError("a failover needs at least one model")
        self.name: str = " or ".join(dict.fromkeys(model.name for model in models))
        self.provider: str | None = provider_of(models[0])
        self.writes_code: bool = writes_code(models[0])
        self.takes_tools: bool = all(map(takes_tools, models))  # each of them is held to its request by itself
        self._models = tuple(models)
        self._rest = rest
        self._clock = clock
        self._resting: dict[int, float] = {}
        """When each model may be asked again, by its index; monotonic seconds."""

    def __repr__(self) -> str:
        return f"FailoverModel({', '.join(map(repr, self._models))})"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the reply of the first model that gives one, with a notice for each that did not.

        Raises:
            ModelError: Of the last one asked; or of one that refused the request, or broke off in mid-reply.
        """
        line = self._line()
        for place, after in zip(line, (*line[1:], None), strict=True):
            given, model = False, self._models[place]
            try:
                async with aclosing(model.stream(_request_for_fallback(place, request))) as events:
                    async for event in events:
                        given = given or not isinstance(event, Notice | AttemptFailed)
                        yield event
                self._resting.pop(place, None)
                return
            except ModelError as error:
                error.model = error.model or model.name
                if given or not _passes_on(error):
                    raise
                self._resting[place] = self._clock.monotonic() + max(self._rest, error.retry_after or 0.0)
                if after is None:
                    raise
                failed = AttemptFailed.of(error, model.name)
            yield failed
            yield Notice(
                text=f"{model.name!r} gave no reply: {failed.text}; going on with {self._models[after].name!r}"
            )

    @property
    def text_model(self) -> FailoverModel | None:
        """A failover over the models' text-completion forms, or None if one of them has none."""
        found = [text_model_of(model) for model in self._models]
        able = [model for model in found if model is not None]
        return FailoverModel(able, rest=self._rest, clock=self._clock) if len(able) == len(found) else None

    def holds_to_schema(self, *, tools: bool) -> bool:
        return all(holds_to_schema(model, tools=tools) for model in self._models)

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Counts tokens as the service of the first model does."""
        return await count_tokens(self._models[0], request)

    async def aclose(self) -> None:
        """Close all of them."""
        for model in self._models:
            if (close := getattr(model, "aclose", None)) is not None:
                await close()

    def _line(self) -> list[int]:
        """The models in the order in which to ask them: those that rest come last."""
        now = self._clock.monotonic()
        return sorted(range(len(self._models)), key=lambda place: self._resting.get(place, now) > now)


class WithSettings:
    """A `Model` with settings of its own, which go before those of the request."""

    def __init__(self, model: Model, settings: Mapping[str, Any]) -> None:
        self.name = model.name
        self.provider = provider_of(model)
        self.writes_code = writes_code(model)
        self.takes_tools = takes_tools(model)
        self._model = model
        self._settings = dict(settings)

    def holds_to_schema(self, *, tools: bool) -> bool:
        return holds_to_schema(self._model, tools=tools)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        return self._model.stream(replace(request, **self._settings))

    @property
    def text_model(self) -> WithSettings | None:
        found = text_model_of(self._model)
        return None if found is None else WithSettings(found, self._settings)

    async def count_tokens(self, request: ModelRequest) -> int | None:
        return await count_tokens(self._model, replace(request, **self._settings))

    async def aclose(self) -> None:
        if (close := getattr(self._model, "aclose", None)) is not None:
            await close()


def _request_for_fallback(place: int, request: ModelRequest) -> ModelRequest:
    """Removes what is in the form of one wire (extra fields, built-in tools) for every model but the first."""
    if place == 0 or not (request.extra or request.builtin_tools):
        return request
    return replace(request, extra={}, builtin_tools=())


def _passes_on(error: ModelError) -> bool:
    return isinstance(error, OF_THE_SERVICE) or error.status in _SPENT
