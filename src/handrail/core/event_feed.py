"""Numbered events that any number of followers read, each from where it was. Nobody who follows is waited for.

A follower that falls behind what is remembered is shown everything again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

_REMEMBERED = 2048
_PIECES = frozenset({"text", "reasoning"})


class NumberedEvent(Protocol):
    """What a feed tells, or the snapshot that it begins with."""

    def __init__(self, *, n: int, type: str, data: Any) -> None: ...
    @property
    def n(self) -> int: ...
    @property
    def type(self) -> str: ...
    @property
    def data(self) -> Any: ...


class Snapshot(Protocol):
    """The state at this moment."""

    @property
    def cursor(self) -> int:
        """The number of the last event that it has taken in."""
        ...


E = TypeVar("E", bound=NumberedEvent)
S = TypeVar("S", bound=Snapshot)


class EventFeed(Generic[E]):
    """The events of one thing, as a conversation. Numbers begin at the time, so that those of an earlier feed are not
    taken for numbers of this one."""

    def __init__(self, event: type[E], now: int, remembered: int = _REMEMBERED) -> None:
        self._event = event
        self.cursor = now * 1000
        self.followers = 0
        self._told: deque[E] = deque(maxlen=remembered)
        self._news = asyncio.Event()
        self._over = False

    def tell(self, type: str, data: Any = None) -> None:
        self.cursor += 1
        self._told.append(self._event(n=self.cursor, type=type, data={} if data is None else data))
        self._wake()

    def close(self) -> None:
        """Ends the feed: its readers get the events that are left, and then the end."""
        self._over = True
        self._wake()

    def knows(self, after: int) -> bool:
        """Whether everything since that number is remembered."""
        first = self._told[0].n if self._told else self.cursor + 1
        return first - 1 <= after <= self.cursor

    def since(self, after: int) -> list[E]:
        """What was told after that number; pieces of text that follow each other as one."""
        found: list[E] = []
        for told in reversed(list(islice(reversed(self._told), self.cursor - after))):
            last = found[-1] if found else None
            if last is not None and told.type == last.type and told.type in _PIECES:
                joined = {"text": last.data["text"] + told.data["text"]}
                found[-1] = self._event(n=told.n, type=told.type, data=joined)
            else:
                found.append(told)
        return found

    async def follow(self, snapshot: Callable[[], S], after: int | None = None) -> AsyncGenerator[S | E, None]:
        """Yields the events after that number until the feed is closed; without one, the snapshot first."""
        self.followers += 1
        try:
            at = after
            while True:
                news = self._news
                if at is None or not self.knows(at):
                    shown = snapshot()
                    at = shown.cursor
                    yield shown
                elif at < self.cursor:
                    for told in self.since(at):
                        at = told.n
                        yield told
                elif self._over:
                    return
                else:
                    await news.wait()
        finally:
            self.followers -= 1

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
