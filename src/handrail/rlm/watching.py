"""Telling whoever watches a run what happens in it: its events, and how many queries and tokens there are."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable

from handrail.core.events import CallIntended, CallSettled, Emit, Event, ignore
from handrail.core.messages import Usage
from handrail.rlm.progress import Progress, QueriesInFlight, Spent, Watch
from handrail.rlm.query.queries import OnRequest
from handrail.rlm.query.spending import Spending
from handrail.rlm.repl.tools import QUERIES
from handrail.rlm.values import LMRequest, LMResponse


class Watching:
    """Costs nothing when nobody watches."""

    def __init__(self, watch: Watch | None, run: str, depth: int, spend: Spending) -> None:
        self._watch = watch
        self._run = run
        self._depth = depth
        self._spend = spend
        self._telling: set[asyncio.Future[None]] = set()

    @property
    def emit(self) -> Emit:
        return ignore if self._watch is None else self._emit

    async def _emit(self, event: Event) -> None:
        await self._tell(event)
        match event:
            case CallIntended(tool=tool) if tool in QUERIES:
                await self._tell(self._in_flight(starting=1))
            case CallSettled(tool=tool) if tool in QUERIES:
                await self._tell(self._in_flight())
                await self._tell(self._spent())

    async def tell(self, progress: Progress) -> None:
        await self._tell(progress)

    async def _tell(self, event: Event | Progress) -> None:
        if self._watch is not None:
            told = self._watch(event)
            if inspect.isawaitable(told):
                await told

    def spend(self, model: str, usage: Usage) -> None:
        """The root model has replied."""
        self._spend.add(model, usage)
        self._soon(self._spent())

    def on_request(self, told: OnRequest | None) -> OnRequest | None:
        """Tells of each query that has its answer, and then `told`."""
        if self._watch is None:
            return told

        def answered(request: LMRequest, response: LMResponse) -> None:
            self._soon(self._in_flight())
            self._soon(self._spent())
            if told is not None:
                told(request, response)

        return answered

    def _soon(self, event: Progress) -> None:
        """From where nothing can be awaited."""
        if self._watch is not None:
            told = self._watch(event)
            if inspect.isawaitable(told):
                task = asyncio.ensure_future(_awaited(told))
                self._telling.add(task)
                task.add_done_callback(self._telling.discard)

    def _in_flight(self, starting: int = 0) -> QueriesInFlight:
        spend = self._spend.whole
        done = spend.queries - spend.in_flight
        return QueriesInFlight(run=self._run, in_flight=spend.in_flight + starting, done=done, depth=self._depth)

    def _spent(self) -> Spent:
        spend = self._spend.whole
        cost = spend.summary().total_cost
        return Spent(run=self._run, tokens=spend.tokens, cost=cost, depth=self._depth)

    async def aclose(self) -> None:
        """Wait until everything was told."""
        if self._telling:
            await asyncio.gather(*self._telling, return_exceptions=True)


async def _awaited(told: Awaitable[None]) -> None:
    await told
