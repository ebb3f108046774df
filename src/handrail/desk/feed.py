"""What is told: numbered events of one conversation, and the news of all of them. Nobody who listens is waited for.

A follower that falls behind what is remembered is shown everything anew. A watcher
that falls behind is told the latest of each thing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from itertools import islice
from typing import Any

from handrail.desk.values import ConversationEvent, ConversationSnapshot

_REMEMBERED = 2048
_PIECES = frozenset({"text", "reasoning"})


class ConversationFeed:
    """The events of one conversation. Numbers begin at the time, so that those of an earlier feed are not taken for
    numbers of this one."""

    def __init__(self, now: int, remembered: int = _REMEMBERED) -> None:
        self.cursor = now * 1000
        self.followers = 0
        self._told: deque[ConversationEvent] = deque(maxlen=remembered)
        self._news = asyncio.Event()
        self._over = False

    def tell(self, type: str, data: Any = None) -> None:
        self.cursor += 1
        self._told.append(ConversationEvent(n=self.cursor, type=type, data={} if data is None else data))
        self._wake()

    def close(self) -> None:
        """Nothing more is told; whoever follows hears what there is and then the end."""
        self._over = True
        self._wake()

    def knows(self, after: int) -> bool:
        """Whether everything since that number is remembered."""
        first = self._told[0].n if self._told else self.cursor + 1
        return first - 1 <= after <= self.cursor

    def since(self, after: int) -> list[ConversationEvent]:
        """What was told after that number; pieces of text that follow each other as one."""
        found: list[ConversationEvent] = []
        for told in reversed(list(islice(reversed(self._told), self.cursor - after))):
            last = found[-1] if found else None
            if last is not None and told.type == last.type and told.type in _PIECES:
                found[-1] = ConversationEvent(
                    n=told.n, type=told.type, data={"text": last.data["text"] + told.data["text"]}
                )
            else:
                found.append(told)
        return found

    async def follow(
        self, snapshot: Callable[[], ConversationSnapshot], after: int | None = None
    ) -> AsyncGenerator[ConversationSnapshot | ConversationEvent, None]:
        """From that number on, or from how things are now, until it is closed."""
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


class LatestNews:
    """What one listener was not told yet. Of each thing only the latest: nobody waits for a listener that is slow."""

    def __init__(self, most: int = 1024) -> None:
        self._most = most
        self._waiting: dict[tuple[str, str], Any] = {}
        self._news = asyncio.Event()
        self._over = False

    def put(self, event: str, key: str, data: Any) -> None:
        """What has the same event and key as something that was not heard yet takes its place."""
        self._waiting.pop((event, key), None)
        self._waiting[event, key] = data
        if len(self._waiting) > self._most:
            del self._waiting[next(iter(self._waiting))]
        self._news.set()

    def end(self) -> None:
        self._over = True
        self._news.set()

    async def next(self) -> tuple[str, Any] | None:
        """The next event and its data; None at the end."""
        while not self._waiting:
            if self._over:
                return None
            self._news.clear()
            await self._news.wait()
        event, key = next(iter(self._waiting))
        return event, self._waiting.pop((event, key))


class DeskNews:
    """Publishes news of all conversations to any number of watchers."""

    def __init__(self) -> None:
        self._watchers: list[LatestNews] = []
        self._over = False

    def tell(self, event: str, key: str, data: Any) -> None:
        for watcher in self._watchers:
            watcher.put(event, key, data)

    async def watch(self, first: Callable[[], list[tuple[str, Any]]]) -> AsyncGenerator[tuple[str, Any], None]:
        """What there is already, then what happens, until it is closed."""
        watcher = LatestNews()
        self._watchers.append(watcher)
        if self._over:
            watcher.end()
        try:
            for told in first():
                yield told
            while (news := await watcher.next()) is not None:
                yield news
        finally:
            self._watchers.remove(watcher)

    def close(self) -> None:
        self._over = True
        for watcher in self._watchers:
            watcher.end()
