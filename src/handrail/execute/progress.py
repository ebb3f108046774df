"""From a handler's `progress(...)`, called anywhere, to events in order on the loop."""

from __future__ import annotations

import asyncio
import logging

from handrail.core.calls import ToolCall
from handrail.core.events import CallProgress
from handrail.execute.recorder import RunRecorder

_MOST_WAITING = 100

logger = logging.getLogger(__name__)


class ProgressReporter:
    """Costs nothing until a handler says something. When the listener is slow, old news is dropped for newer."""

    __slots__ = ("_call", "_loop", "_recorder", "_task", "_waiting")

    def __init__(self, call: ToolCall, recorder: RunRecorder) -> None:
        self._call = call
        self._recorder = recorder
        self._loop = asyncio.get_running_loop()
        self._waiting: list[CallProgress] = []
        self._task: asyncio.Task[None] | None = None

    def report(self, current: float | None, total: float | None, stage: str) -> None:
        """From the loop, or from a thread of a tool; after the loop has closed, into the void."""
        news = CallProgress(
            run=self._recorder.run,
            call_id=self._call.id,
            tool=self._call.name,
            current=current,
            total=total,
            stage=stage,
        )
        try:
            self._loop.call_soon_threadsafe(self._add, news)
        except RuntimeError:
            return

    async def drain(self) -> None:
        """Everything reported so far is told before the answer is."""
        while self._task is not None:
            await asyncio.shield(self._task)

    def _add(self, news: CallProgress) -> None:
        self._waiting.append(news)
        del self._waiting[:-_MOST_WAITING]
        if self._task is None:
            self._task = self._loop.create_task(self._tell())

    async def _tell(self) -> None:
        try:
            while self._waiting:
                await self._recorder.emit(self._waiting.pop(0))
        except Exception:
            # The tool is running: its answer does not hang on whether somebody can hear how far it is.
            logger.exception("a listener failed on the progress of %r", self._call.name)
        finally:
            self._task = None
