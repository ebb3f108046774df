"""The prompts of one session, one after another; they end when it is closed, and none waits for itself."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, Token
from types import TracebackType

from handrail.core.errors import UsageError

_within: ContextVar[tuple[object, ...]] = ContextVar("handrail_prompts", default=())
"""The prompts that this code works for: a tool, an approver or a function for events has those of its session."""


class PromptTurns:
    """Works in the event loop that it was made in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        self._current: object = None
        """The prompt that is being answered."""
        self._tasks: set[asyncio.Task[object]] = set()
        self._closed = False

    def turn(self) -> PromptTurn:
        """Held while one prompt is answered: two at once would each forget the other.

        Raises:
            UsageError: The session works in another loop, is closed meanwhile, or waits for whoever asks.
        """
        return PromptTurn(self)

    async def begin(self, task: asyncio.Task[object]) -> Token[tuple[object, ...]]:
        """Wait for the prompts before this one; what `end` is to be given."""
        self._check_loop()
        if self._is_within():
            raise UsageError(
                "this session is answering a prompt that waits for this, and cannot answer another; "
                "ask a session.fork(), or another session"
            )
        self._tasks.add(task)
        try:
            await self._lock.acquire()
        except BaseException as error:
            self._leave(task, error)
            raise
        self._current = prompt = object()
        return _within.set((*_within.get(), prompt))

    def end(self, task: asyncio.Task[object], token: Token[tuple[object, ...]], error: BaseException | None) -> None:
        """Let the next prompt begin."""
        _within.reset(token)
        self._current = None
        self._lock.release()
        self._leave(task, error)

    def _leave(self, task: asyncio.Task[object], error: BaseException | None) -> None:
        self._tasks.discard(task)
        if isinstance(error, asyncio.CancelledError) and self._closed and not task.uncancel():
            raise UsageError("the session was closed before it had answered") from None

    def check_closable(self) -> None:
        """
        Raises:
            UsageError: A prompt that is being answered waits for whoever would close, or is of another loop.
        """
        if self._is_within():
            raise UsageError("this session is answering a prompt that waits for this; close it after the answer")
        if self._tasks and not self._loop.is_closed():
            self._check_loop()

    async def aclose(self) -> None:
        """Cancel the prompts that are being answered, and wait until they have ended."""
        self._closed = True
        if self._tasks and not self._loop.is_closed():
            tasks = tuple(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise UsageError(
                "this session works in another event loop; use its blocking methods or its async ones, not both, and "
                "close it before another asyncio.run goes on with it"
            )

    def _is_within(self) -> bool:
        return self._current is not None and self._current in _within.get()


class PromptTurn:
    """The turn of one prompt, an `async with` block. A class: a generator would cost each prompt twice as much."""

    __slots__ = ("_task", "_token", "_turns")

    def __init__(self, turns: PromptTurns) -> None:
        self._turns = turns

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[object] = task
        self._token = await self._turns.begin(task)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turns.end(self._task, self._token, error)
