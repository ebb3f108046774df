"""Holds back the events of a call that began early, until the model has asked for the call.

A read may begin as soon as its arguments are whole. Some services say that a call is whole only when the reply ends,
so the call may be settled before its `CallRequested` exists. A listener still hears requested, intended, settled.
The events of a call that the model took back are never emitted; the journal has them.
"""

from __future__ import annotations

from handrail.core.events import Emit, Event


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
