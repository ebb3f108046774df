"""Calls with one answer: a repeated request waits for the same call, and a call that nobody waits for is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from handrail.core.errors import BusError, Outcome
from handrail.node.server.lifecycle import NodeLifecycle
from handrail.node.server.stream_replay import CallKey

Work = Coroutine[Any, Any, dict[str, Any]]


class UnaryCall:
    """One call, and how many requests wait for it."""

    def __init__(self, work: Work, asked: bytes, life: NodeLifecycle, linger: float, *, harmless: bool) -> None:
        self.asked = asked
        self._harmless = harmless
        self.task = asyncio.create_task(work)
        self._life = life
        self._linger = linger
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None
        life.begin(self)
        self.task.add_done_callback(self._ended)

    def end(self) -> None:
        """Cancel the call. Those who wait are told."""
        self.task.cancel()

    async def answer(self, gone: asyncio.Future[Any]) -> dict[str, Any] | None:
        """The response; None when the one who asked is gone.

        Raises:
            BusError: The call failed, or was cancelled.
        """
        self._waiting += 1
        self._stay()
        try:
            await asyncio.wait((self.task, gone), return_when=asyncio.FIRST_COMPLETED)
            return self._result() if self.task.done() else None
        finally:
            self._waiting -= 1
            if not self._waiting and not self.task.done():
                self._leave()

    def _result(self) -> dict[str, Any]:
        if self.task.cancelled():
            # What became of an effect is on record; here nobody waited for it.
            outcome: Outcome = "cancelled" if self._harmless else "in_doubt"
            raise BusError("cancelled", "it was cancelled: nobody waited for it, or the node ends", outcome=outcome)
        return self.task.result()

    def _leave(self) -> None:
        if self._linger <= 0:
            self.end()
        else:
            self._timer = asyncio.get_running_loop().call_later(self._linger, self.end)

    def _stay(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ended(self, task: asyncio.Task[dict[str, Any]]) -> None:
        self._stay()
        self._life.ended(self)
        if not task.cancelled():
            task.exception()  # nobody may be left to ask for it


class UnaryCalls:
    """The calls of a node that are under way, by whose they are."""

    def __init__(self, life: NodeLifecycle, *, linger: float) -> None:
        self._life = life
        self._linger = linger
        self._asked: dict[CallKey, UnaryCall] = {}

    def start(self, key: CallKey, make: Callable[[], Work], asked: bytes, *, harmless: bool) -> UnaryCall:
        """The call of that id, which is started unless it is under way. `harmless` is one that may be made again.

        Raises:
            BusError: The id stands for another call (`bad_request`); or no more are begun (`partition`).
        """
        call = self._asked.get(key)
        if call is None:
            self._life.check()
            call = self._asked[key] = UnaryCall(make(), asked, self._life, self._linger, harmless=harmless)
            call.task.add_done_callback(lambda task: self._asked.pop(key, None))
        elif call.asked != asked:
            raise BusError("bad_request", "that request id was used for another call; take a new one")
        return call
