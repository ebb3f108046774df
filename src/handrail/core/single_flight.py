"""One execution per key at a time: callers that come meanwhile wait for its result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")

_leads: ContextVar[bool] = ContextVar("handrail_leads", default=False)
"""Whether this code runs inside a shared execution of which the leaders never wait."""


class Flight(Generic[K, T]):
    """One execution under way. It ends with the `with` block of its leader."""

    __slots__ = ("_flights", "_key", "_over", "note", "outcome")

    def __init__(self, flights: dict[K, Flight[K, T]], key: K, note: Any) -> None:
        self._flights = flights
        self._key = key
        self._over: asyncio.Future[None] | None = None
        """Ends when the flight does. It is made for the first caller that waits; most flights have none."""
        self.note: Any = note
        """What its leader says of it to those who come later."""
        self.outcome: tuple[T] | Exception | None = None
        """None if its leader was cancelled, or shares nothing."""

    async def wait(self, until: float | None = None) -> None:
        """Wait for its end, until this time of the loop.

        Raises:
            TimeoutError: That was too short.
        """
        loop = asyncio.get_running_loop()
        self._over = self._over or loop.create_future()
        await asyncio.wait({self._over}, timeout=None if until is None else until - loop.time())
        if not self._over.done():
            raise TimeoutError

    def __enter__(self) -> Flight[K, T]:
        self._flights[self._key] = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del self._flights[self._key]
        if self._over is not None:
            self._over.set_result(None)


class SingleFlight(Generic[K, T]):
    """The flights of an event loop, by key. Nothing is kept of one that has ended."""

    def __init__(self, *, leaders_wait: bool = True) -> None:
        """Unless `leaders_wait`, work that is shared never waits for other shared work: it does its own, so that two
        that ask for each other do not deadlock.
        """
        self._leaders_wait = leaders_wait
        self._flights: dict[K, Flight[K, T]] = {}

    def __len__(self) -> int:
        """How many executions are under way."""
        return len(self._flights)

    def __contains__(self, key: K) -> bool:
        return key in self._flights

    async def lead(
        self,
        key: K,
        note: Any = None,
        *,
        may_wait: Callable[[Any], None] = lambda note: None,
        until: float | None = None,
    ) -> Flight[K, T]:
        """Wait while anybody else has the key; then it is the caller's for one `with` block, entered at once.

        `may_wait` is given the note of each flight that would be waited for, and raises if that must not be.

        Raises:
            TimeoutError: Another flight lasts longer than `until`, a time of the loop.
        """
        while (flight := self._flights.get(key)) is not None:
            may_wait(flight.note)
            await flight.wait(until)
        return Flight(self._flights, key, note)

    async def share(self, key: K, work: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """What came of the work, and whether somebody else did it: the first to ask, in its own task.

        If that one is cancelled, the next in line does its own `work`. An exception goes to all.
        """
        while (flight := self._flights.get(key)) is not None:
            if not self._leaders_wait and _leads.get():
                return await work(), False
            await flight.wait()
            match flight.outcome:
                case (value,):
                    return value, True
                case Exception() as error:
                    raise error
        with Flight(self._flights, key, None) as flight:
            leads = None if self._leaders_wait else _leads.set(True)
            try:
                value = await work()
            except Exception as error:
                flight.outcome = error
                raise
            finally:
                if leads is not None:
                    _leads.reset(leads)
            flight.outcome = (value,)
            return value, False
