"""One reply of the model, as it arrives: its words, its calls, and the calls that need not wait for its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import msgspec

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.errors import ProtocolError
from handrail.core.events import (
    AttemptFailed,
    CallDelta,
    CallReady,
    CallRequested,
    CitationAdded,
    Emit,
    Event,
    MediaAdded,
    ReplyFinished,
    ServiceCallMade,
    TextDelta,
    ignore_event,
)
from handrail.core.ids import NewId
from handrail.core.interception import stream_reply
from handrail.core.messages import AssistantMessage, Citation, InvocationMessage, Media, ServiceCall
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model
from handrail.run.transcript import TakenIds

Early = Callable[[ToolCall, Emit], asyncio.Task[ToolResult] | None]
"""Starts a call while the model still speaks, if that is safe, and gives its events to the `Emit`."""
Failed = Callable[[AttemptFailed], Awaitable[None]]
"""Told of an attempt that failed, before the next one begins."""


class ModelReply:
    """Collects one streamed reply: text, reasoning and calls."""

    def __init__(self, taken: TakenIds, new_id: NewId, early: Early, *, own_ids: bool = False) -> None:
        self._taken = taken
        self._own_ids = own_ids
        self._new_id = new_id
        self._early = early
        self._text: list[str] = []
        self._citations: list[Citation] = []
        self._media: list[Media] = []
        self._service_calls: list[ServiceCall] = []
        self._finished: ReplyFinished | None = None
        self.invocations: list[InvocationMessage] = []
        self.started: dict[str, asyncio.Task[ToolResult]] = {}
        self._ready: dict[str, ToolCall] = {}
        """Calls that seem whole, by the ids that the model gave them."""
        self._waiting: list[ToolCall] = []
        """Calls that are whole and not started."""
        self._withdrawn: list[asyncio.Task[ToolResult]] = []
        self._soon: asyncio.Handle | None = None
        self._emit: Emit = ignore_event
        self._held: dict[str, HeldEvents] = {}
        """The events of calls that began before their `CallRequested` was emitted, by the id of the call."""
        self._requested: set[str] = set()
        """The ids of calls whose `CallRequested` was emitted."""

    async def read(self, model: Model, request: ModelRequest, emit: Emit, failed: Failed) -> None:
        """Take in the whole reply.

        Raises:
            ModelError: It did not come whole. What was started early is cancelled.
        """
        self._emit = emit
        try:
            async with aclosing(stream_reply(model, request)) as events:
                async for event in events:
                    match event:
                        case CallDelta():
                            pass
                        case TextDelta(text=piece):
                            self._text.append(piece)
                        case CallReady(call=call):
                            self._ready[call.id] = self._named(call)
                            self._wait_with(self._ready[call.id])
                            continue  # nobody else can do anything with it
                        case CallRequested():
                            event = self._take(event)
                        case ReplyFinished():
                            self._finished = event
                        case CitationAdded(citation=citation):
                            self._citations.append(citation)
                        case MediaAdded(media=media):
                            self._media.append(media)
                        case ServiceCallMade(call=made):
                            self._service_calls.append(made)
                        case AttemptFailed():
                            await failed(event)
                            continue  # its record is emitted instead
                    if emit is not ignore_event:
                        await emit(event)
                        if type(event) is CallRequested:
                            await self._release(event.call.id)
            await self._end()
            if self._finished is None:
                raise ProtocolError(f"the reply of {model.name!r} ended without saying that it had")
        except BaseException:
            await self.abandon()
            raise

    async def _release(self, call_id: str) -> None:
        """The request for this call was emitted: emit what the call did meanwhile, and from now on as it happens."""
        self._requested.add(call_id)
        if (held := self._held.pop(call_id, None)) is not None:
            await held.release()

    async def _end(self) -> None:
        if self._soon is not None:
            self._soon.cancel()  # the reply ended with these calls: they need not run beside it
        for call in self._ready.values():
            self._withdraw(call)
        if self._withdrawn:
            await asyncio.wait(self._withdrawn)

    def _take(self, event: CallRequested) -> CallRequested:
        ready = self._ready.pop(event.call.id, None)
        if ready is not None and (ready.name, ready.arguments) == (event.call.name, event.call.arguments):
            call = ready
        else:
            if ready is not None:
                self._withdraw(ready)
            call = self._named(event.call)
            self._wait_with(call)
        self.invocations.append(InvocationMessage(call, artefacts=event.artefacts))
        return event if call is event.call else msgspec.structs.replace(event, call=call)

    def _named(self, call: ToolCall) -> ToolCall:
        """The call under an id that no other has: some models use one again, and here one names one call of a run."""
        if self._own_ids or not call.id or call.id in self._taken:
            call = msgspec.structs.replace(call, id=self._new_id("call"))
        self._taken.add(call.id)
        return call

    def _wait_with(self, call: ToolCall) -> None:
        self._waiting.append(call)
        if self._soon is None:
            self._soon = asyncio.get_running_loop().call_soon(self._start)

    def _withdraw(self, call: ToolCall) -> None:
        """Withdraws an early start: the call went on after it seemed complete, so it was another call than this."""
        self._waiting = [other for other in self._waiting if other is not call]
        if (task := self.started.pop(call.id, None)) is not None:
            task.cancel()
            self._withdrawn.append(task)

    def _start(self) -> None:
        """The model has not ended yet: begin what need not wait for it."""
        self._soon = None
        for call in self._waiting:
            if (task := self._early(call, self._emit_for(call))) is not None:
                self.started[call.id] = task
        self._waiting.clear()

    def _emit_for(self, call: ToolCall) -> Emit:
        """Where the events of a call go that begins now. Nobody hears of a call before its `CallRequested`."""
        if self._emit is ignore_event or call.id in self._requested:
            return self._emit
        self._held[call.id] = held = HeldEvents(self._emit)
        return held

    async def abandon(self) -> None:
        """Stop what was started early, and wait until it has stopped."""
        if self._soon is not None:
            self._soon.cancel()
        for task in self.started.values():
            task.cancel()
        if tasks := {*self.started.values(), *self._withdrawn}:
            await asyncio.wait(tasks)

    def message(self, at: int) -> AssistantMessage:
        finished = self._finished or ReplyFinished(stop="max_tokens")  # it was cut off, and does not say it ended
        return AssistantMessage(
            "".join(self._text),
            at,
            finished.model,
            finished.stop,
            finished.usage,
            finished.artefacts,
            citations=tuple(self._citations),
            media=tuple(self._media),
            service_calls=tuple(self._service_calls),
        )


class HeldEvents:
    """An `Emit` that keeps events until `release`, and then passes them on."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._events: list[Event] = []
        self._released = False

    async def __call__(self, event: Event) -> None:
        if self._released:
            await self._emit(event)
        else:
            self._events.append(event)

    async def release(self) -> None:
        """Emit what was held, in order. Events that arrive meanwhile queue behind it."""
        for event in self._events:  # the list may grow while an event is emitted
            await self._emit(event)
        self._released = True
        self._events.clear()
