"""Tells watchers of a run what happens in it: its events, and how many queries and tokens there are."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from dataclasses import dataclass, field

from handrail.core.events import CallSettled, Emit, Event, ignore_event
from handrail.core.messages import Usage
from handrail.rlm.progress import Progress, QueriesInFlight, RunSpent, Watch
from handrail.rlm.query.queries import OnRequest
from handrail.rlm.query.spending import Spending
from handrail.rlm.repl.query_tools import QUERIES
from handrail.rlm.values import LMRequest, LMResponse


class SafeWatcher:
    """A `Watch` that never raises. What the one inside raises is kept for the run to end with, where it can end: a
    call that has had its effect is not to fail because somebody could not look."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._failed: Exception | None = None

    def __call__(self, event: Event | Progress) -> Awaitable[None] | None:
        if self._failed is not None:
            return None
        try:
            told = self._watch(event)
        except Exception as error:
            self._failed = error
            return None
        return self._awaited(told) if inspect.isawaitable(told) else None

    async def _awaited(self, told: Awaitable[None]) -> None:
        try:
            await told
        except Exception as error:
            self._failed = self._failed or error

    def forget(self) -> None:
        """What it has raised."""
        self._failed = None

    def check(self) -> None:
        """Raise what the one inside has raised."""
        if self._failed is not None:
            raise self._failed


@dataclass(slots=True)
class WatchNotifier:
    """Costs nothing when nobody watches."""

    watch: SafeWatcher | None
    run: str
    depth: int
    spending: Spending
    _telling: set[asyncio.Future[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.watch is not None and self.spending.whole is self.spending:
            self.spending.on_begin = lambda: self._schedule(self._in_flight())

    @property
    def emit(self) -> Emit:
        return ignore_event if self.watch is None else self._emit

    async def _emit(self, event: Event) -> None:
        await self.tell(event)
        if isinstance(event, CallSettled) and event.tool in QUERIES:
            await self.tell(self._in_flight())
            await self.tell(self._spent())

    async def tell(self, event: Event | Progress) -> None:
        if self.watch is not None:
            told = self.watch(event)
            if inspect.isawaitable(told):
                await told

    def begin(self) -> None:
        """A question is asked. What was raised about the one before has ended that."""
        if self.watch is not None and self.spending.whole is self.spending:
            self.watch.forget()

    def check(self) -> None:
        """Raise `LimitExceeded` if nothing more may be asked, or what the one who watches has raised."""
        if self.watch is not None:
            self.watch.check()
        self.spending.check()

    def spend(self, model: str, usage: Usage) -> None:
        """The root model has replied."""
        self.spending.add(model, usage)
        self._schedule(self._spent())

    def on_request(self, told: OnRequest | None) -> OnRequest | None:
        """Tells of each query that has its answer, and then `told`."""
        if self.watch is None:
            return told

        def answered(request: LMRequest, response: LMResponse) -> None:
            self._schedule(self._in_flight())
            self._schedule(self._spent())
            if told is not None:
                told(request, response)

        return answered

    def _schedule(self, event: Progress) -> None:
        """Schedules a notice from code that cannot await."""
        if self.watch is not None:
            told = self.watch(event)
            if inspect.isawaitable(told):
                task = asyncio.ensure_future(told)
                self._telling.add(task)
                task.add_done_callback(self._telling.discard)

    def _in_flight(self) -> QueriesInFlight:
        spend = self.spending.whole
        done = spend.queries - spend.in_flight
        return QueriesInFlight(run=self.run, in_flight=spend.in_flight, done=done, depth=self.depth)

    def _spent(self) -> RunSpent:
        spend = self.spending.whole
        cost = spend.summary().total_cost
        return RunSpent(run=self.run, tokens=spend.tokens, cost=cost, depth=self.depth)

    async def aclose(self) -> None:
        """Wait until everything was told."""
        if self._telling:
            await asyncio.gather(*self._telling, return_exceptions=True)
