"""Calls under way: a call may outlive the request that began it, when it waits for input or went on as a task.

Each runs in a task of its own, so that a request that ends cannot break it off by chance,
and the server can end all of them when it ends. Nothing here knows the wire.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Literal

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import UsageError
from handrail.core.events import CallProgress, Emit, Event
from handrail.mcp.server.client_approver import ClientDecider
from handrail.mcp.server.client_questions import ClientAsk, DeferredQuestionLine

CALLS = 2_000
"""Calls at the same time, tasks and those that wait included."""
WAITING = 256
"""Calls that wait for input without a request that waits for them."""

News = Literal["done", "asked", "detached"]

logger = logging.getLogger(__name__)

_ENDED = (
    "The server ended while this call was running. It was cancelled; what it had done by then, it had done. "
    "The server's record says how far it came."
)


class CallInProgress:
    """One call under way."""

    def __init__(self, call: ToolCall, context: Context, owner: str, line: DeferredQuestionLine | None) -> None:
        self.call = call
        self.context = context
        self.owner = owner
        self.line = line
        self.tell: Emit = _nobody
        """Hears how far the call is: the request that waits for it now."""
        self.detached: bool = False
        self.talk: ClientDecider | None = None
        """The way to the person behind it."""
        self.client: ClientAsk | None = None
        self.request: Any = None
        """The request that waits for it now."""
        self._task: asyncio.Task[ToolResult] | None = None
        self._news = asyncio.Event()
        if line is not None:
            line.on_change = self._news.set

    def start(self, work: Coroutine[Any, Any, ToolResult]) -> None:
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(lambda task: self._news.set())

    async def report(self, event: CallProgress) -> None:
        await self.tell(event)

    def detach(self) -> None:
        """Let it go on without a request that waits for it."""
        self.detached = True
        self._news.set()

    def follow(self, request: Any, tell: Emit) -> None:
        """Make this request the one that waits for the call."""
        self.request, self.tell = request, tell

    def leave(self) -> None:
        """Let no request wait for the call."""
        self.request, self.tell = None, _nobody

    @property
    def done(self) -> bool:
        return self._task is not None and self._task.done()

    def on_done(self, then: Callable[[], None]) -> None:
        self._running.add_done_callback(lambda task: then())

    async def news(self) -> News:
        """Return when it has ended, asks for something, or goes on by itself."""
        while True:
            self._news.clear()
            if self.detached:
                return "detached"
            if self.done:
                return "done"
            if self.line is not None and self.line.open:
                return "asked"
            await self._news.wait()

    async def wait(self) -> None:
        """Return when it has ended, however."""
        await asyncio.wait({self._running})

    def cancel(self) -> None:
        self._running.cancel()

    def result(self) -> ToolResult:
        """Its answer. One that was cancelled from here has nobody who could have asked for that.

        Raises:
            HandrailError: It could not be settled.
        """
        if self._running.cancelled():
            return ToolResult(self.call.id, self.call.name, _ENDED, "cancelled")
        return self._running.result()

    @property
    def error(self) -> BaseException | None:
        """Why it could not be settled."""
        return None if self._running.cancelled() else self._running.exception()

    @property
    def _running(self) -> asyncio.Task[ToolResult]:
        if self._task is None:
            raise AssertionError("a call is started before it is waited for")
        return self._task


async def _nobody(event: Event) -> None:
    return None


class CallsInProgress:
    """All calls of a server that are under way, and those of them that wait for their client to come back."""

    def __init__(self, calls: int = CALLS, waiting: int = WAITING) -> None:
        self._all: set[CallInProgress] = set()
        self._waiting: dict[str, CallInProgress] = {}
        self._most_calls = calls
        self._most_waiting = waiting
        self._ended = False

    def begin(self, going: CallInProgress, work: Coroutine[Any, Any, ToolResult]) -> None:
        """Run a call.

        Raises:
            UsageError: The server ends, or has too many.
        """
        if self._ended or len(self._all) >= self._most_calls:
            work.close()
            busy = f"{self._most_calls} calls are already running; send this one again later, it did not start"
            raise UsageError("the server is stopping and accepts no more calls" if self._ended else busy)
        going.start(work)
        self._all.add(going)
        going.on_done(lambda: self._over(going))

    def leave_waiting(self, going: CallInProgress) -> None:
        """No request waits for it any more; its client comes back with answers.

        Raises:
            UsageError: Too many wait already. The call is cancelled.
        """
        if len(self._waiting) >= self._most_waiting:
            going.cancel()
            raise UsageError(f"{self._most_waiting} calls wait for input already; answer some of them first")
        self._waiting[going.call.id] = going

    def take_up(self, call_id: str, owner: str) -> CallInProgress | None:
        """The call that waits under this id, if it is this caller's."""
        going = self._waiting.get(call_id)
        if going is None or going.owner != owner:
            return None
        return self._waiting.pop(call_id)

    async def end(self, grace: float) -> None:
        """Cancel every call, and give them and those who wait for them so many seconds. No call begins after this."""
        self._ended = True
        for going in tuple(self._all):
            going.cancel()
        if self._all:
            waiting = {asyncio.ensure_future(going.wait()) for going in self._all}
            _, late = await asyncio.wait(waiting, timeout=grace)
            for each in late:
                each.cancel()
            if late:
                logger.warning("%d calls did not end within %g seconds of being cancelled", len(late), grace)

    def _over(self, going: CallInProgress) -> None:
        self._all.discard(going)
        # The same call may have been sent twice; then another waits under its id.
        if self._waiting.get(going.call.id) is going:
            del self._waiting[going.call.id]
