"""One reply of the model, as it arrives: its words, its calls, and the calls that need not wait for its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import msgspec

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.errors import ProtocolError
from handrail.core.events import CallRequested, Emit, ReplyFinished, TextDelta
from handrail.core.ids import NewId
from handrail.core.messages import AssistantMessage, InvocationMessage
from handrail.core.model import ModelRequest
from handrail.core.ports import Model

Early = Callable[[ToolCall], asyncio.Task[ToolResult] | None]
"""Starts a call while the model still speaks, if that is safe."""


class Reply:
    """Filled while the model speaks; then it says what was said."""

    def __init__(self, taken: set[str], new_id: NewId, early: Early) -> None:
        self._taken = taken
        self._new_id = new_id
        self._early = early
        self._text: list[str] = []
        self._finished: ReplyFinished | None = None
        self.invocations: list[InvocationMessage] = []
        self.started: dict[str, asyncio.Task[ToolResult]] = {}

    async def read(self, model: Model, request: ModelRequest, emit: Emit) -> None:
        """Take in the whole reply.

        Raises:
            ModelError: It did not come whole. What was started early is cancelled.
        """
        try:
            async with aclosing(model.stream(request)) as events:
                async for event in events:
                    match event:
                        case TextDelta(text=piece):
                            self._text.append(piece)
                        case CallRequested():
                            event = self._take(event)
                        case ReplyFinished():
                            self._finished = event
                    await emit(event)
            if self._finished is None:
                raise ProtocolError(f"the reply of {model.name!r} ended without saying that it had")
        except BaseException:
            await self.abandon()
            raise

    def _take(self, event: CallRequested) -> CallRequested:
        call = event.call
        if not call.id or call.id in self._taken:  # some models reuse ids; here one names one call of a run
            call = msgspec.structs.replace(call, id=self._new_id("call"))
            event = msgspec.structs.replace(event, call=call)
        self._taken.add(call.id)
        self.invocations.append(InvocationMessage(call, artefacts=event.artefacts))
        if (task := self._early(call)) is not None:
            self.started[call.id] = task
        return event

    async def abandon(self) -> None:
        """Stop what was started early, and wait until it has stopped."""
        for task in self.started.values():
            task.cancel()
        if self.started:
            await asyncio.wait(self.started.values())

    def message(self, at: int) -> AssistantMessage:
        finished = self._finished or ReplyFinished(stop="max_tokens")  # it was cut off, and does not say it ended
        return AssistantMessage(
            "".join(self._text), at, finished.model, finished.stop, finished.usage, finished.artefacts
        )
