"""Trials of tools by hand: calls like any other, each in a run of its own, checked, confirmed and recorded.

A trial belongs to the desk and to nobody who looks at it, as a turn does: who leaves finds it again, and what it has
begun to change is not cut off in the middle. It ends by itself, when a person stops it, or with the desk.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from msgspec.structs import replace

from handrail.app.app import App
from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import HandrailError, UnknownTool, UsageError
from handrail.core.events import CallRequested, CallSettled, Event
from handrail.core.ids import NewId, new_id
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.desk.feed import DeskNews, LatestNews
from handrail.desk.live_turn import TurnAssembler
from handrail.desk.message_view import MessageView
from handrail.desk.questions import PendingQuestions
from handrail.desk.values import DeskQuestion, LiveCall

Frame = tuple[str, Any]
"""("call", LiveCall), ("question", Question), ("answered", {"request", "decision", "by"})."""
_KEPT = 32
"""Trials that have ended and are still shown to whoever comes back."""


class ToolTrials:
    def __init__(self, app: App, asking: PendingQuestions, news: DeskNews, new_id: NewId = new_id) -> None:
        self._app = app
        self._asking = asking
        self._news = news
        self._new_id = new_id
        self._trials: dict[str, ToolTrial] = {}
        """By run, the newest last."""
        self._closed = False

    @property
    def under_way(self) -> bool:
        return any(not trial.is_over for trial in self._trials.values())

    def begin(self, name: str, arguments: dict[str, Any] | str) -> ToolTrial:
        """Call a tool.

        Raises:
            UsageError: There is no such tool.
        """
        if self._closed:
            raise UsageError("the desk is closed; start the program again")
        try:
            tool = self._app.tools.find(name)
        except UnknownTool as error:
            raise UsageError(error.message) from error
        call = ToolCall(self._new_id("call"), tool.scoped_name, _read(arguments))
        trial = ToolTrial(self._app, self._asking, self._news, self._new_id("run"), call)
        self._trials[trial.run] = trial
        for old in [run for run, each in self._trials.items() if each.is_over][:-_KEPT]:
            del self._trials[old]
        return trial

    def of(self, name: str) -> tuple[LiveCall, ...]:
        """The trials of a tool that run or ended not long ago, the newest first."""
        return tuple(each.call for each in reversed(self._trials.values()) if each.call.name == name)

    def find(self, run: str) -> ToolTrial:
        """The trial with this run.

        Raises:
            UsageError: There is no such trial.
        """
        trial = self._trials.get(run)
        if trial is None:
            raise UsageError(f"trial {run!r} is no longer known here; the record has its result")
        return trial

    async def close(self) -> None:
        self._closed = True
        await asyncio.gather(*(trial.stop() for trial in self._trials.values()))


class ToolTrial:
    """One call, under way from the beginning. `ToolTrials.begin` makes it."""

    def __init__(self, app: App, asking: PendingQuestions, news: DeskNews, run: str, call: ToolCall) -> None:
        self.run = run
        self.is_over = False
        self.is_seen = False
        """Whether a person was shown its end; who shows it says so. A wire cannot tell."""
        self._app = app
        self._asking = asking
        self._news = news
        self._asks = call
        self._turn = TurnAssembler(MessageView(app.tools), begun=app.executor.runs.now())
        self._followers: list[LatestNews] = []
        requested = self._turn.take(CallRequested(call=call))
        assert requested is not None
        self.call = replace(requested, run=run)
        """As it stands."""
        self._problem: BaseException | None = None
        """Why nobody knows what became of it."""
        self._work = asyncio.create_task(self._call())
        self._ending = asyncio.create_task(self._end())

    async def follow(self) -> AsyncGenerator[Frame, None]:
        """How it goes, from now on; the last is the call, done. Whoever closes this leaves it alone.

        A question is told to all who watch the desk, too: anybody there may answer it.

        Raises:
            JournalError: The record cannot be kept, so nothing runs.
        """
        frames = LatestNews()
        frames.put("call", self.call.call_id, self.call)
        for question in self._asking.of(self.run):
            frames.put("question", question.request, question)
        if self.is_over:
            frames.end()
        self._followers.append(frames)
        try:
            while (frame := await frames.next()) is not None:
                yield frame
        finally:
            self._followers.remove(frames)
        if self._problem is not None:
            raise self._problem

    async def stop(self) -> None:
        """End it. What was done stays done and on record."""
        self._work.cancel()
        await asyncio.wait({self._ending})

    async def _call(self) -> None:
        app = self._app
        with self._asking.attend(self.run, self.run, self._take_question_event, f"trying {self._asks.name}"):
            result = await app.executor.invoke(self._asks, Context(run=self.run), self._emit)
        if self.call.stage != "done":
            # What waits for a decision has no entry.
            await self._emit(_settled(self.run, app.executor.runs.now(), result))

    async def _end(self) -> None:
        await asyncio.wait({self._work})
        self._problem = None if self._work.cancelled() else self._work.exception()
        try:
            await self._app.executor.finish(self.run)
        except HandrailError as error:
            self._problem = self._problem or error
        finally:
            if self._work.cancelled() and self.call.stage in ("writing", "asked"):  # it was stopped before it began
                self.call = replace(self.call, stage="done", outcome="cancelled")
                self._tell("call", self.call.call_id, self.call)
            self.is_over = True
            for frames in self._followers:
                frames.end()

    async def _emit(self, event: Event) -> None:
        if getattr(event, "call_id", "") != self._asks.id:
            return  # what it calls itself is its own affair
        if (found := self._turn.take(event)) is not None:
            self.call = replace(found, run=self.run)
            self._tell("call", self.call.call_id, self.call)

    def _take_question_event(self, event: str, data: Any) -> None:
        self._tell(event, data.request if isinstance(data, DeskQuestion) else data["request"], data)
        self._asking.tell(self._news, data)

    def _tell(self, event: str, key: str, data: Any) -> None:
        for frames in self._followers:
            frames.put(event, key, data)


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
