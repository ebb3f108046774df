"""The frames of a call to another node, whatever becomes of the connections that bring them.

A connection that is lost is made again, and the stream taken up after the last frame that came.
The call itself is never made twice: only the node that has it can go on with it, and where that
is not available the last frame says so, and whether anybody knows what became of the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, Self

from handrail.core.errors import BusError
from handrail.node.bus.outgoing_rights import encode_body
from handrail.node.bus.stream_frame import ERROR, StreamFrame
from handrail.node.http.http_call import HttpCall
from handrail.node.http.link_loss import LinkLost, SocketsUnsupported

if TYPE_CHECKING:
    from handrail.node.http.bus import HttpBus

UNKNOWN = frozenset({"not_found", "expired"})
"""What a node says of a stream that it does not have."""


class FrameLink(Protocol):
    """One connection that brings the frames of a call: by server-sent events, or by a socket."""

    async def next(self) -> StreamFrame:
        """The next frame.

        Raises:
            LinkLost: There will be no more.
            SocketsUnsupported: It has to be asked in another way, and nothing was begun.
            BusError: The node refused.
        """
        ...

    async def tool_result(self, tool_call_id: str, body: Any, is_error: bool) -> None:
        """Send an answer; if it does not get there, whoever takes up the stream sends it again."""
        ...

    async def cancel(self) -> bool:
        """Ask for the end of the call: whether its last frame is still to come."""
        ...

    async def close(self) -> None: ...


class HttpStream:
    """Read it from one task; answers and `cancel` may come from another."""

    def __init__(self, bus: HttpBus, ask: Callable[[], Awaitable[HttpCall]], *, socket: bool) -> None:
        self._bus = bus
        self._make = ask
        self._asked: HttpCall | None = None
        self._by_socket = socket
        self._link: FrameLink | None = None
        self._opening: asyncio.Task[FrameLink] | None = None
        self._backoff = bus.backoff()
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
            frame = await self._bus.in_time(self._asked, self._next(self._asked))
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
            raise self._bus.cancelled_error(ask, begun=self._begun)
        attempt = self._attempts + 1
        self._opening = asyncio.ensure_future(self._open(ask, attempt))
        try:
            link = await self._opening
        except LinkLost as lost:
            self._attempts += lost.sent
            raise
        except BusError as error:
            if attempt > 1 and error.code in UNKNOWN:
                raise self._bus.lost_error(ask, "the node no longer knows the call", begun=True) from error
            refusal = self._bus.refusal_error(ask, error, attempt)
            if refusal is error:
                raise
            raise refusal from error
        except asyncio.CancelledError:
            self._attempts += 1  # it may have got there
            if self._cancelled.is_set() and not _is_cancelled():
                raise self._bus.cancelled_error(ask, begun=True) from None
            raise
        finally:
            self._opening = None
        self._attempts += 1
        for tool_call_id, (body, is_error) in self._answers.items():
            await link.tool_result(tool_call_id, body, is_error)
        return link

    async def _open(self, ask: HttpCall, attempt: int) -> FrameLink:
        opened = self._bus.by_socket if self._by_socket else self._bus.by_events
        self._link = await opened(ask, attempt, self._seq)  # also where nobody waits for it any more: it is closed
        return self._link

    async def _regain(self, ask: HttpCall, lost: LinkLost) -> None:
        """Wait before another attempt.

        Raises:
            BusError: There will be none.
        """
        if self._cancelled.is_set():
            raise self._bus.cancelled_error(ask, begun=self._begun) from lost
        now = self._bus.clock.monotonic()
        self._lost_at = now if self._lost_at is None else self._lost_at
        if not self._begun or now - self._lost_at > self._bus.pace.patience:
            raise self._bus.lost_error(ask, str(lost), begun=self._begun) from lost
        await self._pause(self._backoff.delay())

    async def _pause(self, seconds: float) -> None:
        """Sleep, unless somebody cancels."""
        sleeps = (
            asyncio.ensure_future(self._bus.clock.sleep(seconds)),
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
