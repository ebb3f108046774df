"""The three ways to call two calls the same: equal, equal and recent, near in meaning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from handrail.core.errors import UsageError
from handrail.core.ports import Clock, Embedder
from handrail.execute.dedupe.matching import MAX_ENTRIES, MAX_SCOPES, MatchedCallKey, MatchingDeduplicator, call_digest
from handrail.execute.dedupe.semantic import SemanticCallKey, SemanticMatcher

THRESHOLD = 0.92


class ExactMatcher:
    """Same tool and equal arguments: 1 and 1.0 are equal, 1 and "1" and true are not."""

    def key(self, name: str, arguments: dict[str, Any]) -> MatchedCallKey:
        return MatchedCallKey(call_digest(name, arguments))

    def nearest(self, key: MatchedCallKey, others: Iterable[MatchedCallKey]) -> None:
        """Nothing that is not equal is near."""
        return None


class ExactDeduplicator(MatchingDeduplicator[MatchedCallKey]):
    """Answers an equal call until a write makes it forget, or the memory is full."""

    def __init__(self, *, max_entries: int = MAX_ENTRIES, max_scopes: int = MAX_SCOPES) -> None:
        super().__init__(ExactMatcher(), max_entries=max_entries, max_scopes=max_scopes)


class WindowDeduplicator(MatchingDeduplicator[MatchedCallKey]):
    """Answers an equal call for so many seconds from its first result. Being asked does not prolong them."""

    def __init__(
        self,
        seconds: float,
        clock: Clock | None = None,
        *,
        max_entries: int = MAX_ENTRIES,
        max_scopes: int = MAX_SCOPES,
    ) -> None:
        super().__init__(ExactMatcher(), seconds=seconds, clock=clock, max_entries=max_entries, max_scopes=max_scopes)


class SemanticDeduplicator(MatchingDeduplicator[SemanticCallKey]):
    """Answers a call whose short texts mean about the same. `semantic.py` says what it can get wrong.

    For searches and questions. A tool that needs its text to the letter wants the exact one.
    """

    def __init__(
        self,
        embedder: Embedder,
        threshold: float = THRESHOLD,
        seconds: float | None = None,
        clock: Clock | None = None,
        *,
        max_entries: int = MAX_ENTRIES,
        max_scopes: int = MAX_SCOPES,
    ) -> None:
        if not 0 < threshold <= 1:
            raise UsageError(f"a threshold of {threshold!r} cannot be used; give a number above 0 and at most 1")
        super().__init__(
            SemanticMatcher(embedder, threshold),
            seconds=seconds,
            clock=clock,
            max_entries=max_entries,
            max_scopes=max_scopes,
        )
