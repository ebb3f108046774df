"""Trying one tool by hand: a call like any other, in a run of its own, checked, confirmed and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from msgspec.structs import replace

from handrail.app.opened import App
from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.events import CallRequested, CallSettled, Event
from handrail.core.ids import NewId, new_id
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.desk.asking import Asking
from handrail.desk.feed import News
from handrail.desk.live import Turn
from handrail.desk.shown import Shown
from handrail.desk.values import Question

Frame = tuple[str, Any]
"""("call", LiveCall), ("question", Question), ("answered", {"request", "decision", "by"})."""


async def tried(
    app: App, asking: Asking, news: News, name: str, arguments: dict[str, Any] | str, *, new_id: NewId = new_id
) -> AsyncGenerator[Frame, None]:
    """Call it, and tell how it goes; the last frame is the call, done. Whoever closes this cancels the call.

    A question is told to all who watch the desk, too: anybody there may answer it.

    Raises:
        JournalError: The record cannot be kept, so nothing runs.
    """
    run, call = new_id("run"), ToolCall(new_id("call"), name, _read(arguments))
    frames, turn = _Frames(), Turn(Shown(app.tools), begun=app.executor.now())

    async def emit(event: Event) -> None:
        found = turn.take(event)
        if found is not None and found.call_id == call.id:  # what it calls itself is its own affair
            frames.put("call", call.id, replace(found, run=run))

    def listen(event: str, data: Any) -> None:
        asked = isinstance(data, Question)
        request = data.request if asked else data["request"]
        frames.put(event, request, data)
        news.tell(event, request, data if asked else request)

    async def work() -> None:
        try:
            with asking.attend(run, run, listen, turn.busy_with):
                result = await app.executor.invoke(call, Context(run=run), emit)
            if not any(each.call_id == call.id and each.stage == "done" for each in turn.live.calls):
                await emit(_settled(run, app.executor.now(), result))  # what waits for a word has no entry of its own
        finally:
            frames.end()

    await emit(CallRequested(call=call))
    task = asyncio.create_task(work())
    try:
        while (frame := await frames.next()) is not None:
            yield frame
        await task
    finally:
        task.cancel()
        try:
            await asyncio.gather(task, return_exceptions=True)
        finally:
            await app.executor.finish(run)


def _read(arguments: dict[str, Any] | str) -> dict[str, Any] | str:
    """As a value, so that it is shown as one. What cannot be read is refused like any call, with the reasons."""
    try:
        return parse_object(arguments) if isinstance(arguments, str) else arguments
    except (JSONTextError, RecursionError):
        return arguments


def _settled(run: str, at: int, result: ToolResult) -> CallSettled:
    return CallSettled(
        run=run,
        at=at,
        call_id=result.tool_call_id,
        tool=result.name,
        outcome=result.outcome,
        duration_us=result.duration_us,
        ran=False,
        result=result,
    )


class _Frames:
    """What was not read yet. Of each thing only the latest: a tool that tells much is not waited for."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], Any] = {}
        self._news = asyncio.Event()
        self._over = False

    def put(self, event: str, key: str, data: Any) -> None:
        self._waiting.pop((event, key), None)
        self._waiting[event, key] = data
        self._news.set()

    def end(self) -> None:
        self._over = True
        self._news.set()

    async def next(self) -> Frame | None:
        """None is the end."""
        while not self._waiting:
            if self._over:
                return None
            self._news.clear()
            await self._news.wait()
        event, key = next(iter(self._waiting))
        return event, self._waiting.pop((event, key))
