"""The answer to one prompt: whole, or as a stream of events that has the whole reply at its end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any, Generic, Self, TypeVar

from msgspec import Struct

from handrail.core.calls import ToolResult
from handrail.core.errors import UsageError
from handrail.core.events import Emit, Event, TextDelta
from handrail.core.messages import AssistantMessage, Conversation, Message, Usage
from handrail.run.answers import ends_with_answer_call
from handrail.sessions.blocking import LazyPortal
from handrail.sessions.session_engine import stream_emitted

T = TypeVar("T")


_NOT_ENDED = "there is no reply: iterate over the stream to its end first"


class SessionReply(Struct, Generic[T], frozen=True):
    """The answer to one prompt, and what was done for it."""

    text: str
    """The answer as the model wrote it."""
    conversation: Conversation
    value: T
    """The answer as the type that was asked for; without one, its text."""
    results: tuple[ToolResult, ...] = ()
    """The results of the calls that this prompt led to, in order; without those by which the model gave a typed
    answer."""
    start: int = 0
    """Where this prompt begins in the conversation."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """What this prompt added to the conversation: itself, the replies, the calls and their results."""
        return self.conversation.messages[self.start :]

    @property
    def usage(self) -> Usage:
        """Tokens and cost of all replies to this prompt, without those of agents that were called as tools.

        `conversation.usage` has those of the whole conversation.
        """
        return Conversation(self.messages).usage

    @property
    def finished(self) -> bool:
        """Whether the model came to an answer; if not, a limit ended the turn, and `text` is what it had said."""
        last = self.messages[-1:]
        return bool(last) and (isinstance(last[0], AssistantMessage) or ends_with_answer_call(self.messages))

    def __str__(self) -> str:
        return self.text


class AsyncSessionStream(Generic[T]):
    """The events of one prompt as they happen. The model is asked when the first event is awaited.

    `aclose()`, or the end of its `async with` block, cancels a run that has not ended and waits for it.
    """

    def __init__(self, work: Callable[[Emit], Coroutine[Any, Any, SessionReply[T]]]) -> None:
        replies: list[SessionReply[T]] = []

        async def run(emit: Emit) -> None:
            replies.append(await work(emit))

        # The generator does not know this object: a stream that nobody holds any more ends at once.
        self.events: AsyncGenerator[Event, None] = stream_emitted(run)
        self._replies = replies

    @property
    def reply(self) -> SessionReply[T]:
        """The whole reply, once the stream has ended.

        Raises:
            UsageError: It has not ended, or not with a reply.
        """
        if not self._replies:
            raise UsageError(_NOT_ENDED)
        return self._replies[0]

    @property
    async def text_stream(self) -> AsyncIterator[str]:
        """Iterates over the pieces of text, instead of all events."""
        async for event in self.events:
            if isinstance(event, TextDelta):
                yield event.text

    def __aiter__(self) -> AsyncIterator[Event]:
        return self.events

    async def __anext__(self) -> Event:
        return await anext(self.events)

    async def aclose(self) -> None:
        await self.events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class SessionStream(Generic[T]):
    """The events of one prompt as they happen. The model is asked when the first event is read.

    `close()`, or the end of its `with` block, cancels a run that has not ended and waits for it; so does
    leaving a `for` loop over it.
    """

    def __init__(self, stream: AsyncSessionStream[T], portal: LazyPortal) -> None:
        self._stream = stream
        self.events: Generator[Event, None, None] = portal.iterate(stream.events)

    @property
    def reply(self) -> SessionReply[T]:
        """The whole reply, once the stream has ended.

        Raises:
            UsageError: It has not ended, or not with a reply.
        """
        if getgeneratorstate(self.events) != GEN_CLOSED:  # the run may have ended ahead of whoever reads its events
            raise UsageError(_NOT_ENDED)
        return self._stream.reply

    @property
    def text_stream(self) -> Iterator[str]:
        """Iterates over the pieces of text, instead of all events."""
        for event in self.events:
            if isinstance(event, TextDelta):
                yield event.text

    def __iter__(self) -> Iterator[Event]:
        return self.events

    def __next__(self) -> Event:
        return next(self.events)

    def close(self) -> None:
        self.events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
