"""The news of all conversations. Nobody who watches is waited for: one that falls behind is told the latest of each
thing. `core/event_feed.py` has the numbered events of one conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any


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

    @property
    def is_watched(self) -> bool:
        return bool(self._watchers)

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
