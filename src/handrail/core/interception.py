"""Interception: what may stand between a run and its model, and between a call and its handler.

A run, or an `LLM`, asks a model; the executor calls a handler. Both pass here. Nobody stands here in a program that is
not a test or a trial, and then it costs the look at one context variable. Everything else stays as it is: calls are
checked, authorised, confirmed and recorded whoever answers them.

Cassette            replies and outputs from a file                testing/
TrialTools          outputs that a file of cases states            cli/evaluate/
RecordedOutputs     outputs that a recorded run had                cli/what_if/
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from msgspec import Struct

from handrail.core.calls import Output
from handrail.core.events import ModelEvent
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model


class HandlerCall(Struct, frozen=True, kw_only=True):
    """A checked and permitted call whose handler is to run now."""

    id: str
    tool: str
    """The name of the tool, with that of its ensemble if it has one."""
    arguments: dict[str, Any]
    secrets: frozenset[str]
    """The names of arguments that the schema declares as secret."""
    side_effects: bool


class Interceptor(Protocol):
    @property
    def asks_services(self) -> bool:
        """Whether requests go to the service of a model. If none does, no key is needed."""
        ...

    def stream(self, model: Model, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The reply in place of `model.stream(request)`."""
        ...

    async def perform(self, call: HandlerCall, run: Callable[[], Awaitable[Output]]) -> Output:
        """The output of a call; `run` runs its handler, with its retries and its timeout.

        Raises:
            ToolError: The call gave no output.
        """
        ...


_current: ContextVar[Interceptor | None] = ContextVar("handrail.interceptor", default=None)


def current_interceptor() -> Interceptor | None:
    return _current.get()


@contextmanager
def intercepted_by(interceptor: Interceptor | None) -> Iterator[None]:
    """Let it stand between for as long as the block lasts, also in tasks that are begun in it; None is nobody."""
    before = _current.get()
    _current.set(interceptor)
    try:
        yield
    finally:
        _current.set(before)


def stream_reply(model: Model, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    """The reply of a model, from whoever gives it."""
    interceptor = _current.get()
    return model.stream(request) if interceptor is None else interceptor.stream(model, request)
