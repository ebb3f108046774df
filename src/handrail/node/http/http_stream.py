"""The frames of a call to another node, whatever becomes of the connections that bring them.

A connection that is lost is made again, and the stream taken up after the last frame that came.
The call itself is never made twice: only the node that has it can go on with it, and where that
cannot be had the last frame says so, and whether anybody knows what became of the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, Self

from handrail.core.errors import BusError
from handrail.core.ports import Clock
from handrail.core.timeouts import time_limit_at
from handrail.node.bus.outgoing_rights import encode_body
from handrail.node.bus.stream_frame import ERROR, StreamFrame
from handrail.node.http.backoff import HttpBackoff
from handrail.node.http.frame_link import FrameLink, LinkLost, SocketsUnsupported
from handrail.node.http.http_call import HttpCall

GRACE = 2.0
"""Seconds past its deadline in which a node may still say itself that there was no time."""
UNKNOWN = frozenset({"not_found", "expired"})
"""What a node says of a stream that it does not have."""


class LinkSource(Protocol):
    """How a stream gets its connections."""

    clock: Clock
    patience: float

    async def by_events(self, ask: HttpCall, attempt: int, after: int) -> FrameLink: ...

    async def by_socket(self, ask: HttpCall, attempt: int, after: int) -> FrameLink: ...

    def backoff(self) -> HttpBackoff: ...

    def lost(self, ask: HttpCall, why: str, *, begun: bool) -> BusError:
        """The error of a call of which nobody heard the end."""
        ...

    def refusal(self, ask: HttpCall, error: BusError, attempt: int) -> Exception:
        """What is to be raised when an attempt is refused: `LinkLost` where another may be made."""
        ...

    def cancelled(self, ask: HttpCall, *, begun: bool) -> BusError:
        """The error of a call that was cancelled, and nobody said how it ended."""
        ...

    def late(self, ask: HttpCall) -> BusError:
        """The error of a call whose time is over, and its node silent."""
        ...


class HttpStream:
    """Read it from one task; answers and `cancel` may come from another."""

    def __init__(self, ways: LinkSource, ask: Callable[[], Awaitable[HttpCall]], *, socket: bool) -> None:
        self._ways = ways
        self._make = ask
        self._asked: HttpCall | None = None
        self._by_socket = socket
        self._link: FrameLink | None = None
        self._opening: asyncio.Task[FrameLink] | None = None
        self._backoff = ways.backoff()
        self._attempts = 0
        """That the node may have got."""
        self._lost_at: float | None = None
        self._seq = 0
        self._ended = False
        self._cancelled = asyncio.Event()
        self._offered: set[str] = set()
        self._answers: dict[str, tuple[Any, bool]] = {}

    def __aiter__(self) -> AsyncIterator[StreamFrame]:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        ended, self._ended = self._ended, True
        link, self._link = self._link, None
        if link is not None:
            if not ended:
                await link.cancel()
            await link.close()

    @property
    def _begun(self) -> bool:
        return self._attempts > 0

    async def __anext__(self) -> StreamFrame:
        if self._ended:
            raise StopAsyncIteration
        try:
            if self._asked is None:
                self._asked = await self._make()
                self._by_socket |= self._asked.terms.interactive  # server-sent events go one way
            frame = await self._in_time(self._asked)
        except BusError as error:
            frame = StreamFrame(ERROR, error.to_dict(), self._seq + 1)
        self._seq = frame.seq
        if frame.event == "tool_call" and isinstance(frame.data.get("id"), str):
            self._offered.add(frame.data["id"])
        if frame.is_last:
            self._ended = True
            await self._drop()
        return frame

    async def tool_result(self, tool_call_id: str, body: Any, *, is_error: bool = False) -> None:
        if tool_call_id not in self._offered or tool_call_id in self._answers:
            raise BusError("bad_request", f"no call {tool_call_id[:100]!r} waits for an answer")
        encode_body(body)  # what cannot be sent now cannot be sent when the wire is mended either
        self._answers[tool_call_id] = (body, is_error)
        if self._link is not None:
            await self._link.tool_result(tool_call_id, body, is_error)

    async def cancel(self) -> None:
        self._cancelled.set()
        if self._opening is not None:  # before the first frame there may be nothing to say it on
            self._opening.cancel()
        elif self._link is not None and not await self._link.cancel():
            self._link = None

    # ── one frame ────────────────────────────────────────────────────────────────────

    async def _in_time(self, ask: HttpCall) -> StreamFrame:
        try:
            async with time_limit_at(None if ask.terms.deadline is None else ask.terms.deadline + GRACE) as limit:
                return await self._next(ask)
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._ways.late(ask) from None

    async def _next(self, ask: HttpCall) -> StreamFrame:
        while True:
            link = None
            try:
                link = self._link or await self._connect(ask)
                frame = await link.next()
            except LinkLost as lost:
                await self._drop()
                await self._regain(ask, lost)
                continue
            except SocketsUnsupported:
                self._attempts -= link is not None  # that one was refused, and began nothing
                self._by_socket = False
                await self._drop()
                continue
            self._lost_at = None
            self._backoff.reset()
            if frame.seq == self._seq + 1:
                return frame
            if frame.seq > self._seq:
                raise BusError(
                    "internal_error", f"frames {self._seq + 1} to {frame.seq - 1} are missing", outcome="in_doubt"
                )

    async def _connect(self, ask: HttpCall) -> FrameLink:
        if self._cancelled.is_set():
            raise self._ways.cancelled(ask, begun=self._begun)
        attempt = self._attempts + 1
        self._opening = asyncio.ensure_future(self._open(ask, attempt))
        try:
            link = await self._opening
        except LinkLost as lost:
            self._attempts += lost.sent
            raise
        except BusError as error:
            if attempt > 1 and error.code in UNKNOWN:
                raise self._ways.lost(ask, "the node no longer knows the call", begun=True) from error
            refusal = self._ways.refusal(ask, error, attempt)
            if refusal is error:
                raise
            raise refusal from error
        except asyncio.CancelledError:
            self._attempts += 1  # it may have got there
            if self._cancelled.is_set() and not _is_cancelled():
                raise self._ways.cancelled(ask, begun=True) from None
            raise
        finally:
            self._opening = None
        self._attempts += 1
        for tool_call_id, (body, is_error) in self._answers.items():
            await link.tool_result(tool_call_id, body, is_error)
        return link

    async def _open(self, ask: HttpCall, attempt: int) -> FrameLink:
        opened = self._ways.by_socket if self._by_socket else self._ways.by_events
        self._link = await opened(ask, attempt, self._seq)  # also where nobody waits for it any more: it is closed
        return self._link

    async def _regain(self, ask: HttpCall, lost: LinkLost) -> None:
        """Wait before another attempt.

        Raises:
            BusError: There will be none.
        """
        if self._cancelled.is_set():
            raise self._ways.cancelled(ask, begun=self._begun) from lost
        now = self._ways.clock.monotonic()
        self._lost_at = now if self._lost_at is None else self._lost_at
        if not self._begun or now - self._lost_at > self._ways.patience:
            raise self._ways.lost(ask, str(lost), begun=self._begun) from lost
        await self._pause(self._backoff.delay())

    async def _pause(self, seconds: float) -> None:
        """Sleep, unless somebody cancels."""
        sleeps = (
            asyncio.ensure_future(self._ways.clock.sleep(seconds)),
            asyncio.ensure_future(self._cancelled.wait()),
        )
        try:
            await asyncio.wait(sleeps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for sleep in sleeps:
                sleep.cancel()
            await asyncio.wait(sleeps)

    async def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()


def _is_cancelled() -> bool:
    """Whether the task that runs is to end, and not only what it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
