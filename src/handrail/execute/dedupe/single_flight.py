"""Equal calls in flight share one execution. Nothing is kept once it has ended: that is memory's work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

_leads: ContextVar[bool] = ContextVar("handrail_leads", default=False)
"""Whether this code runs inside a shared execution. Such code never waits for another one, so no circle can form."""


@dataclass(frozen=True, slots=True)
class _FlightValue(Generic[T]):
    value: T


@dataclass(frozen=True, slots=True)
class _FlightError:
    error: Exception


@dataclass(slots=True)
class _Flight(Generic[T]):
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    outcome: _FlightValue[T] | _FlightError | None = None
    """None when it ended: whoever ran it was cancelled."""


class SingleFlight(Generic[T]):
    """The first to ask runs the work in its own task; the others wait for what comes of it."""

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[T]] = {}

    def __len__(self) -> int:
        """How many executions are under way."""
        return len(self._flights)

    async def share(self, key: Hashable, start: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """What came of the work, and whether somebody else ran it.

        If the first is cancelled, the next in line runs its own `start`. An exception goes to all.
        """
        while (flight := self._flights.get(key)) is not None:
            if _leads.get():
                return await start(), False
            await flight.ended.wait()
            match flight.outcome:
                case _FlightValue(value):
                    return value, True
                case _FlightError(error):
                    raise error
        return await self._lead(key, start), False

    async def _lead(self, key: Hashable, start: Callable[[], Awaitable[T]]) -> T:
        flight: _Flight[T] = _Flight()
        self._flights[key] = flight
        leads = _leads.set(True)
        try:
            value = await start()
        except Exception as error:
            flight.outcome = _FlightError(error)
            raise
        else:
            flight.outcome = _FlightValue(value)
            return value
        finally:
            _leads.reset(leads)
            del self._flights[key]
            flight.ended.set()
