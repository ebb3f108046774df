"""The seams. Each protocol has one reason to exist and at least two implementations, of which some are to come (*).

Model        a provider, a script                         providers/, testing/
Invoker      the executor, a remote worker                execute/, bus/*
Approver     a person, standing rules                     cli/, execute/
Authoriser   scopes as values, real tokens                execute/, bus/*
Journal      memory, SQLite                               testing/, proof/
Spill        memory, a directory                          execute/, store/
Embedder     words hashed, wordllama                      testing/, store/
Clock        the machine's, a fixed one                   core/, testing/
Tracer       OpenTelemetry, a list of what was told       telemetry/, tests

`SearchesTools`, `NamesProvider`, `WritesCode`, `TakesTools`, `HoldsToSchema`, `CountsTokens` and `CompletesText` are
what a `Model` may be besides, `SharedAnswers`, `AppendsAtOnce` and `VersionsRuns` what a `Journal`
may be.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, cast, runtime_checkable

from msgspec import Struct

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.confirmation import Confirmation, Decision
from handrail.core.context import Context
from handrail.core.events import (
    CallIntended,
    ConfirmationAnswered,
    ConfirmationRequested,
    Emit,
    ModelEvent,
    Recorded,
    ignore_event,
)
from handrail.core.messages import AssistantMessage
from handrail.core.model_request import ModelRequest


class Model(Protocol):
    """A language model: it has a name, and its replies come as a stream of events."""

    @property
    def name(self) -> str: ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the reply as it arrives, `ReplyFinished` last; the caller closes the generator.

        Raises:
            ModelError: The service failed, or said something unreadable.
        """
        ...


@runtime_checkable
class SearchesTools(Protocol):
    """An optional protocol of a model whose service searches tools that are offered as deferred."""

    @property
    def searches_tools(self) -> bool: ...


@runtime_checkable
class NamesProvider(Protocol):
    """An optional protocol of a model that names its provider."""

    @property
    def provider(self) -> str | None: ...


def provider_of(model: Model) -> str | None:
    """Its name; None if it says none, or means something else by the word."""
    provider: object = model.provider if isinstance(model, NamesProvider) else None
    return provider if isinstance(provider, str) else None


@runtime_checkable
class WritesCode(Protocol):
    """An optional protocol of a model that says whether it is large enough to write a program."""

    @property
    def writes_code(self) -> bool: ...


def writes_code(model: Model) -> bool:
    """Whether it can write a program; a model that says nothing of it can."""
    return model.writes_code is not False if isinstance(model, WritesCode) else True


@runtime_checkable
class TakesTools(Protocol):
    """An optional protocol of a model that says whether it supports tools, or ignores them."""

    @property
    def takes_tools(self) -> bool: ...


def takes_tools(model: Model) -> bool:
    """Whether tools can be offered to it; a model that says nothing of it takes them."""
    return model.takes_tools is not False if isinstance(model, TakesTools) else True


@runtime_checkable
class HoldsToSchema(Protocol):
    """An optional protocol of a model that says when its service enforces a `response_schema`."""

    def holds_to_schema(self, *, tools: bool) -> bool:
        """Whether the service does so, in a request that offers tools or in one that offers none."""
        ...


def holds_to_schema(model: Model, *, tools: bool) -> bool:
    """Whether its service holds a reply to a schema; a model that says nothing of it does not."""
    return isinstance(model, HoldsToSchema) and model.holds_to_schema(tools=tools)


@runtime_checkable
class CountsTokens(Protocol):
    """An optional protocol of a model whose service can count the tokens of a request."""

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """The tokens of the request; None where the service cannot say it of this model.

        Raises:
            ModelError: The service failed, or refused the request.
        """
        ...


async def count_tokens(model: Model, request: ModelRequest) -> int | None:
    """The number of tokens as the service counts them; None if it cannot be asked.

    Raises:
        ModelError: The service failed, or refused the request.
    """
    return await model.count_tokens(request) if isinstance(model, CountsTokens) else None


@runtime_checkable
class CompletesText(Protocol):
    """An optional protocol of a model that can continue a text, without roles or tools."""

    @property
    def text_model(self) -> Model | None:
        """A model that is asked with one user message and goes on with its text; None where it is not available."""
        ...


def text_model_of(model: Model) -> Model | None:
    """What goes on with a text in its place; None if it cannot."""
    return model.text_model if isinstance(model, CompletesText) else None


class Invoker(Protocol):
    """Whatever runs a call of a tool, as an `Executor` does."""

    async def invoke(self, call: ToolCall, context: Context = ..., emit: Emit = ignore_event) -> ToolResult:
        """Settle one call. What a tool or a model does wrong is in the result, never raised."""
        ...


class Approver(Protocol):
    """Decides about side effects, as an object. A function will do too: `as_approver` makes one of it."""

    async def decide(self, question: Confirmation) -> Decision:
        """What a person, or whoever stands for one, says of a call.

        It shows `question.shown` in full, or does not allow the call. It is cancelled when
        somebody else answers first; then it takes its question back.
        """
        ...


class Authoriser(Protocol):
    """Says who may use which tool."""

    async def authorise(self, context: Context, names: tuple[str, ...]) -> None:
        """Return if the caller may use the tool that goes by these names (scoped, plain, bound capability).

        Raises:
            Forbidden: It may not, with words for the model.
        """
        ...


class Lease(Protocol):
    """The right to work on a run, until it is released."""

    def release(self) -> None: ...


class Journal(Protocol):
    """Where the record of a run is kept."""

    async def append(self, event: Recorded, *, durable: bool = False) -> None:
        """Return once a killed process would keep the event; with `durable`, once a power cut would.

        Raises:
            JournalError: It is not written, and nothing that depends on it may go on.
        """
        ...

    async def history(self, run: str) -> list[Recorded]:
        """Every event of a run in order, bodies included; an erased body is None."""
        ...

    async def lease(self, run: str) -> Lease:
        """Keep every other process, and every other caller here, off a run until released.

        Raises:
            LeaseHeld: Somebody has it.
        """
        ...

    async def aclose(self) -> None: ...


@runtime_checkable
class AppendsAtOnce(Protocol):
    """An optional protocol of a journal that can append without waiting. Either method may say False; then
    nothing was appended, and `append` does it."""

    def append_at_once(self, event: Recorded, *, durable: bool = False) -> bool:
        """Append an event as `append` does, if that needs no wait.

        Raises:
            JournalError: It is not written, and nothing that depends on it may go on.
        """
        ...

    def append_soon(self, event: Recorded) -> bool:
        """Take an event that nobody waits for. It is written before any event that is appended later, by itself within
        a hundredth of a second or as soon as the disk allows, and before the run is read or let go of. If that fails,
        every later append fails until it is written.

        Raises:
            JournalError: The journal is closed, or has failed before.
        """
        ...


def appending_at_once(journal: Journal | None) -> AppendsAtOnce | None:
    """The journal, if it can append without waiting. Every session asks, and `isinstance` takes long for a protocol."""
    can = hasattr(journal, "append_at_once") and hasattr(journal, "append_soon")
    return cast(AppendsAtOnce, journal) if can else None


@runtime_checkable
class VersionsRuns(Protocol):
    """An optional protocol of a journal that can say whether a run has changed, without reading it."""

    async def version_of(self, run: str) -> tuple[int, int]:
        """The same as long as nobody adds to a run, and nothing that was said in it is erased.

        Raises:
            JournalError: The journal cannot be read.
        """
        ...


@runtime_checkable
class SharedAnswers(Protocol):
    """An optional protocol of a journal in which several processes answer questions."""

    async def answer(self, event: ConfirmationAnswered, *, durable: bool = False) -> ConfirmationAnswered:
        """Append an answer, unless the question has one; return the answer that counts, which is the first.

        Raises:
            JournalError: It is not written.
        """
        ...

    async def find_answer(self, run: str, request: str) -> ConfirmationAnswered | None:
        """The first answer to a question, if anybody has given one. What else the run has on record is not read.

        Raises:
            JournalError: The journal cannot be read.
        """
        ...

    async def wait_for_answer(self, run: str, request: str) -> ConfirmationAnswered:
        """Return the first answer to a question, once anybody has given it."""
        ...


class EffectMark(Struct, frozen=True):
    """The latest entry of a side effect in the journal: the call that started it, or asked a person about it."""

    seq: int
    run: str
    call_id: str


@runtime_checkable
class EffectJournal(Protocol):
    """An optional protocol of a journal that finds a side effect by what it does, in any run."""

    async def last_effect(self, identity: bytes) -> EffectMark | None:
        """The place where the effect of this identity was last noted."""
        ...

    async def append_effect(
        self, event: CallIntended | ConfirmationRequested, identity: bytes, after: int | None, *, durable: bool = False
    ) -> bool:
        """Append an event and note the effect that it is about, unless that was noted since.

        `after` is the `seq` of the last note that the caller knows of, None of none. Without a newer one the event is
        appended, and True returned; else nothing is written.

        Raises:
            JournalError: It is not written.
        """
        ...


def finding_effects(journal: Journal | None) -> EffectJournal | None:
    """The journal, if it finds side effects. It is asked as `appending_at_once` is."""
    can = hasattr(journal, "last_effect") and hasattr(journal, "append_effect")
    return cast(EffectJournal, journal) if can else None


class Spill(Protocol):
    """Keeps whole outputs of which the model got only a part."""

    async def put(self, text: str) -> str:
        """Keep a text and return its id."""
        ...

    async def read(self, id: str, start: int, length: int) -> tuple[str, int]:
        """A piece of a kept text, and how long the whole is.

        Raises:
            KeyError: Nothing of that id is kept.
        """
        ...


class Embedder(Protocol):
    """Turns texts into vectors, so that near meanings are found."""

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector of length 1 for each text; near texts have a near-1 product."""
        ...


class Span(Protocol):
    """An operation that an operator can follow."""

    @property
    def parent(self) -> str | None:
        """The `traceparent` for what happens inside it."""
        ...

    def settled(self, result: ToolResult, tool: str) -> None: ...

    def replied(self, message: AssistantMessage) -> None: ...

    def refused(self, code: str) -> None:
        """The reply cannot be used, and the model is asked again."""
        ...


class Tracer(Protocol):
    """Makes spans. Each lasts as long as its block, and records an exception that leaves the block."""

    def run(self, run: str, model: Model, context: Context) -> AbstractContextManager[Span]: ...

    def turn(self, run: str, model: Model, request: ModelRequest, context: Context) -> AbstractContextManager[Span]: ...

    def call(self, call: ToolCall, context: Context) -> AbstractContextManager[Span]: ...


class Clock(Protocol):
    """Tells the time. `SystemClock` is the real one, `FixedClock` of `handrail.testing` one for tests."""

    def now(self) -> int:
        """Milliseconds since 1970, for people and records."""
        ...

    def monotonic(self) -> float:
        """Seconds from some point on, for durations and windows; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
