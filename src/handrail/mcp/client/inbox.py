"""Reads every message of a server before the SDK sees it, whichever transport it came by.

Notices of changed lists end here: a storm of them is one flag that is set often,
and not a task of the SDK's for each.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCResponse,
)

from handrail.core.ports import Clock
from handrail.mcp.client.failures import TransportFault
from handrail.mcp.client.wire import remove_malformed_tools, substitute_answer, too_many_items
from handrail.mcp.sdk_internals import ReadStream, is_broken_stream, is_unreadable_answer

Item = SessionMessage | Exception

_NOTICES = {
    "notifications/tools/list_changed": "tools",
    "notifications/resources/list_changed": "resources",
    "notifications/prompts/list_changed": "prompts",
}
_USED_HERE = frozenset(
    ("notifications/progress", "notifications/cancelled", "notifications/subscriptions/acknowledged")
)
"""Notifications that belong to a request of ours. Any other is for the client, where we stand before one."""
OnMessage = Callable[[str, dict[str, Any]], None]
_AT_ONCE = 32
"""Messages that are given out before others in the loop have their turn."""


class McpInbox:
    def __init__(self, on_notice: Callable[[str], None], on_message: OnMessage | None = None) -> None:
        """`on_message` takes the notifications that are not for us, where there is somebody to pass them on to."""
        self._on_notice = on_notice
        self._on_message = on_message
        self._marks: dict[str, TransportFault] = {}
        self.modern = False
        """Whether every result has a `resultType`, or would have if the server kept to the protocol."""
        self.over = False
        """Whether the SDK has stopped reading, and so every request is answered with an error."""

    def mark(self, mark: str, fault: TransportFault) -> None:
        """Let an error message with this `data` stand for a fault. Nobody else can know the mark."""
        self._marks[mark] = fault

    def take(self, message: JSONRPCMessage) -> JSONRPCMessage | None:
        """The message as the SDK should have it, or None if it should not."""
        match message:
            case JSONRPCResponse(id=id, result=result):
                if (fault := too_many_items(result)) is not None:
                    return substitute_answer(id, fault)
                if "resultType" not in result and (self.modern or "supportedVersions" in result):
                    result["resultType"] = "complete"
                remove_malformed_tools(result, modern=self.modern)
            case JSONRPCNotification(method=method) if (kind := self._kind(method, message)) is not None:
                self._on_notice(kind)
                return None
            case JSONRPCNotification(method=method) if self._on_message is not None and method not in _USED_HERE:
                self._on_message(method, message.params or {})
                return None
            case JSONRPCError(error=error) if isinstance(error.data, str) and error.data in self._marks:
                error.data = self._marks.pop(error.data)
        return message

    def _kind(self, method: str, message: JSONRPCNotification) -> str | None:
        if method == "notifications/resources/updated":
            uri = (message.params or {}).get("uri")
            return f"resource:{uri}" if isinstance(uri, str) else None
        return _NOTICES.get(method)


class _SdkReadStream(ABC):
    """The rest of a `ReadStream` of the SDK's."""

    @abstractmethod
    async def receive(self) -> Item: ...

    @abstractmethod
    async def aclose(self) -> None: ...

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        await self.aclose()
        return None


class InboxQueue(_SdkReadStream):
    """A `ReadStream` of the SDK's that is filled from a callback: no task, and no second hand that passes on."""

    def __init__(self, inbox: McpInbox, on_room: Callable[[], None]) -> None:
        self._inbox = inbox
        self._on_room = on_room
        self._items: deque[SessionMessage] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._given = 0

    def __len__(self) -> int:
        return len(self._items)

    def put(self, message: JSONRPCMessage) -> None:
        taken = self._inbox.take(message)
        if taken is not None and not self._ended:
            self._items.append(SessionMessage(taken))
            self._wake()

    def end(self) -> None:
        """Marks that nothing more will come."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def receive(self) -> Item:
        try:
            return await self._next()
        except BaseException:
            self._inbox.over = True
            raise

    async def _next(self) -> Item:
        self._given += 1
        if self._given % _AT_ONCE == 0:
            await asyncio.sleep(0)
        while not self._items:
            if self._ended:
                raise anyio.EndOfStream
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        item = self._items.popleft()
        self._on_room()
        return item

    async def aclose(self) -> None:
        self._inbox.over = True
        self.end()


class InboxWatchedStream(_SdkReadStream):
    """The `ReadStream` of one of the SDK's transports, with the inbox before it."""

    def __init__(self, inner: ReadStream[Item], inbox: McpInbox) -> None:
        self._inner = inner
        self._inbox = inbox

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context of the request that the last message belongs to; the SDK runs callbacks in it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Item:
        try:
            while True:
                item = await self._inner.receive()
                # An exception here is a message that nobody can read and nobody waits for.
                if isinstance(item, SessionMessage) and (taken := self._inbox.take(_told(item.message))) is not None:
                    item.message = taken
                    return item
        except BaseException:
            self._inbox.over = True
            raise

    async def aclose(self) -> None:
        self._inbox.over = True
        await self._inner.aclose()


def _told(message: JSONRPCMessage) -> JSONRPCMessage:
    """The SDK answers a request itself when its stream breaks off or cannot be read, just as a server would.

    As an error of the server's it would say that the request was refused, and nobody knows that.
    """
    match message:
        case JSONRPCError(error=error) if is_broken_stream(error):
            error.data = TransportFault("lost", "the stream of the answer broke off")
        case JSONRPCError(error=error) if is_unreadable_answer(error):
            error.data = TransportFault("unusable", "it answered with something that is not a message")
    return message


logger = logging.getLogger(__name__)

_LONGEST = 30.0
"""Seconds to which the wait may grow."""
_MOST = 1000
"""Different changes that are kept apart. Beyond that a server only makes names of resources up."""


class NoticeThrottle:
    def __init__(self, settle: float, on_change: Callable[[str], None], clock: Clock) -> None:
        self._settle = settle
        self._on_change = on_change
        self._clock = clock
        self._waiting: dict[str, None] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, what: str) -> None:
        """Tell of it soon, once, however often it is added meanwhile."""
        if len(self._waiting) < _MOST or not what.startswith("resource:"):
            self._waiting[what] = None
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._tell(), name="handrail-mcp-notices")

    def tell(self, what: str) -> None:
        """Tell of it now."""
        try:
            self._on_change(what)
        except Exception:  # who listens must not take the connection down
            logger.exception("what listens to an MCP connection failed at %r", what)

    async def aclose(self) -> None:
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _tell(self) -> None:
        wait = self._settle
        await self._clock.sleep(wait)
        # In a storm there is always something new after the wait: each is twice as long as the last.
        while self._waiting:
            told, self._waiting = self._waiting, {}
            for what in told:
                self.tell(what)
            wait = min(wait * 2, _LONGEST)
            await self._clock.sleep(wait)
