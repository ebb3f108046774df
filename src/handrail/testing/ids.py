"""Ids that a test can name."""

from __future__ import annotations

from collections import Counter


class CountedIds:
    """`call_1`, `call_2`, `run_1`: in order, for each kind."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def __call__(self, kind: str) -> str:
        self._counts[kind] += 1
        return f"{kind}_{self._counts[kind]}"
