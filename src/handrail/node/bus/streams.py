"""The frames of one call, between the handler that sends them and the caller that reads: bounded, numbered, ended once.

The handler runs in a task of the stream, from when somebody first reads. It waits while the reader is behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Self

from msgspec import Struct

from handrail.core.errors import BusError
from handrail.node.bus.capability_providers import PROGRESS, CapabilityProvider
from handrail.node.bus.interfaces import CallStream
from handrail.node.bus.stream_frame import DONE, ERROR, RESULT, StreamFrame

ROOM = 64
"""Frames that wait for their reader at most."""
TOOL_CALL = "tool_call"

logger = logging.getLogger(__name__)


class CapabilityResponse(Struct, frozen=True):
    """What a call gave: its `output`, unless that went out in frames, and its `meta`."""

    output: dict[str, Any] | None
    meta: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {"output": self.output or {}, "meta": self.meta}


class FrameStream:
    """Both ends: a `CallStream` for the caller, a `Channel` for the handler."""

    def __init__(
        self,
        serve: Callable[[FrameStream], Awaitable[CapabilityResponse]],
        *,
        interactive: bool = False,
        room: int = ROOM,
    ) -> None:
        self._serve = serve
        self.interactive = interactive
        self.broken: BusError | None = None
        """What the handler sent and must not have: the call ends with it, whatever the handler makes of that."""
        self._task: asyncio.Task[None] | None = None
        self._frames: deque[StreamFrame] = deque()
        self._most = room
        self._waiting: deque[asyncio.Future[None]] = deque()
        """Senders that wait for the reader, in the order they came."""
        self._news = asyncio.Event()
        self._count = 0
        self._over = False
        self.hides_output: bool = False
        """Whether what it gives goes out in frames, so that its end need not repeat it."""
        self._provider: CapabilityProvider | None = None
        self._relay: CallStream | None = None
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}

    @property
    def has_sent(self) -> bool:
        """Whether the caller can have seen anything yet."""
        return self._count > 0

    # ── for the caller ───────────────────────────────────────────────────────────────

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamFrame:
        self._begin()
        while not self._frames:
            if self._over:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        frame = self._frames.popleft()
        self._make_room()
        return frame

    async def tool_result(self, tool_call_id: str, body: Any, *, is_error: bool = False) -> None:
        if self._relay is not None and not self._over:
            return await self._relay.tool_result(tool_call_id, body, is_error=is_error)
        waits = self._answers.get(tool_call_id)
        if self._over or waits is None or waits.done():
            raise BusError("bad_request", f"no tool call {tool_call_id[:100]!r} of this stream waits for an answer")
        waits.set_result({"body": body, "is_error": is_error})

    async def cancel(self) -> None:
        if self._task is None and not self._over:
            self._end((ERROR, _cancelled().to_dict()))
        elif self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.cancel()

    def _begin(self) -> None:
        if self._task is None and not self._over:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            response = await self._serve(self)
            result = () if response.output is None else ((RESULT, response.output),)
            self._end(*result, (DONE, response.meta))
        except BusError as error:
            self._end((ERROR, error.to_dict()))
        except asyncio.CancelledError:
            self._end((ERROR, _cancelled().to_dict()))
            raise
        except Exception as error:  # the reader waits for an end, whatever happened
            logger.error("a stream ended with %s", type(error).__name__)
            self._end((ERROR, BusError("internal_error", "the stream broke off").to_dict()))

    def _end(self, *last: tuple[str, dict[str, Any]]) -> None:
        for event, data in last:
            self._append(event, data)
        self._over = True
        self._news.set()
        self._make_room()
        for waits in self._answers.values():
            waits.cancel()

    # ── for the handler ──────────────────────────────────────────────────────────────

    def serves(self, provider: CapabilityProvider) -> None:
        """The capability whose frames these are: only what it promises may be sent."""
        self._provider = provider
        self.hides_output = False

    async def send(self, event: str, data: dict[str, Any]) -> None:
        try:
            if self._provider is not None:
                self._provider.check_frame(event, data)
        except BusError as error:
            self.broken = error
            raise
        if event == TOOL_CALL and self.interactive and isinstance(id := data.get("id"), str):
            self._expect(id)
        await self._put(event, data)

    def _expect(self, tool_call_id: str) -> None:
        known = self._answers.get(tool_call_id)
        if known is None or known.done():
            self._answers[tool_call_id] = asyncio.get_running_loop().create_future()

    async def answer(self, tool_call_id: str) -> dict[str, Any]:
        if not self.interactive or tool_call_id not in self._answers:
            raise RuntimeError(f"nobody was asked {tool_call_id!r}: send it as a tool_call frame, to who can answer")
        # Shielded: a handler that waits for a while, and then once more, still gets the answer.
        return await asyncio.shield(self._answers[tool_call_id])

    async def relay(self, stream: CallStream) -> CapabilityResponse:
        """Pass on the frames of another node.

        Raises:
            BusError: It ended with an error, or without an end.
        """
        self._relay, output = stream, None
        try:
            async for frame in stream:
                match frame.event:
                    case "done":
                        return CapabilityResponse(output, frame.data)
                    case "error":
                        raise BusError.from_dict(frame.data)
                    case "result":
                        output = frame.data
                    case _:
                        await self._put(frame.event, frame.data)
        finally:
            self._relay = None  # another provider may be asked, whose calls are answered there
        raise BusError("partition", "the other node broke off in mid-stream", outcome="in_doubt")

    def progress(self, current: float | None, total: float | None, stage: str) -> None:
        """News of how far it is; dropped where the reader is behind."""
        if not self._over and len(self._frames) < self._most:
            self._append(PROGRESS, {"current": current, "total": total, "stage": stage})

    async def _put(self, event: str, data: dict[str, Any]) -> None:
        while not self._over and len(self._frames) >= self._most:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._make_room()  # it was this sender's turn, and is now the next one's
                raise
        if self._over:
            raise BusError("cancelled", "nobody reads this stream any more", outcome="cancelled")
        self._append(event, data)

    def _make_room(self) -> None:
        while self._waiting and (self._over or len(self._frames) < self._most):
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                if not self._over:
                    return

    def _append(self, event: str, data: dict[str, Any]) -> None:
        self._count += 1
        self._frames.append(StreamFrame(event, data, self._count))
        self._news.set()


def _cancelled() -> BusError:
    return BusError("cancelled", "the caller cancelled it", outcome="cancelled")
