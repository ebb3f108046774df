"""The loop by hand with a faster JSON: how much of the cost is `json`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import msgspec

from bench.turns.contestants import by_hand
from bench.turns.work import Once, Work


def opened(work: Work, base_url: str) -> AbstractAsyncContextManager[Once]:
    return by_hand.opened(work, base_url, msgspec.json.encode, msgspec.json.decode)
