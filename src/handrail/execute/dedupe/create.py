"""Deduplicators by name, as a TOML file gives them: `"exact"`, or `{ kind = "window", seconds = 60 }`.

There are three ways to call two calls the same: equal, equal and recent, near in meaning.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from handrail.core.calls import ToolResult
from handrail.core.errors import UsageError
from handrail.core.ports import Clock, Embedder
from handrail.execute.dedupe.matching import (
    MAX_ENTRIES,
    MAX_SCOPES,
    Deduplicator,
    MatchedCallKey,
    MatchingDeduplicator,
    call_digest,
)
from handrail.execute.dedupe.semantic import SemanticCallKey, SemanticMatcher

THRESHOLD = 0.92


class ExactMatcher:
    """Same tool and equal arguments: 1 and 1.0 are equal, 1 and "1" and true are not."""

    def key(self, name: str, arguments: dict[str, Any]) -> MatchedCallKey:
        return MatchedCallKey(call_digest(name, arguments))

    def nearest(self, key: MatchedCallKey, others: Iterable[MatchedCallKey]) -> None:
        """Finds nothing: only equal calls match."""
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


class _ExactOptions(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    max_entries: int = MAX_ENTRIES
    max_scopes: int = MAX_SCOPES


class _WindowOptions(_ExactOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    seconds: float


class _SemanticOptions(_ExactOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    threshold: float = THRESHOLD
    seconds: float | None = None


STRATEGIES: dict[str, type[_ExactOptions]] = {
    "exact": _ExactOptions,
    "semantic": _SemanticOptions,
    "window": _WindowOptions,
}
_EMBEDDER = "handrail.sessions.store.embedding.WordLlamaEmbedder()"


def create_deduplicator(
    name: str | Mapping[str, Any] | Deduplicator | DuplicateChecker | None,
    *,
    embedder: Embedder | None = None,
    clock: Clock | None = None,
) -> Deduplicator | None:
    """Make the deduplicator that a file or a program names. One that is made already is returned as it is;
    one that has only `is_duplicate` and `record` is given a memory for the results.

    Raises:
        UsageError: There is no such strategy, or its options do not fit it.
    """
    match name:
        case None | "none":
            return None
        case str():
            return _build(name, {}, embedder, clock)
        case Mapping():
            options = {key: value for key, value in name.items() if key != "kind"}
            return _build(name.get("kind"), options, embedder, clock)
        case Deduplicator():
            return name
        case DuplicateChecker():
            return DuplicateCheckerAdapter(name)
    raise UsageError(f"{name!r} is not a deduplicator; give {_choices()}, or an object with the methods of one")


def _build(name: Any, given: Mapping[str, Any], embedder: Embedder | None, clock: Clock | None) -> Deduplicator:
    options = STRATEGIES.get(name) if isinstance(name, str) else None
    if options is None:
        raise UsageError(f"there is no deduplicator {name!r}; the choices are {_choices()}")
    try:
        chosen = msgspec.convert(given, options)
    except msgspec.ValidationError as error:
        raise UsageError(f"the options of the deduplicator {name!r} do not fit: {error}") from error
    limits = {"max_entries": chosen.max_entries, "max_scopes": chosen.max_scopes}
    match chosen:
        case _WindowOptions():
            return WindowDeduplicator(chosen.seconds, clock, **limits)
        case _SemanticOptions():
            if embedder is None:
                raise UsageError(f"the deduplicator {name!r} needs an embedder; give create() one, as {_EMBEDDER}")
            return SemanticDeduplicator(embedder, chosen.threshold, chosen.seconds, clock, **limits)
    return ExactDeduplicator(**limits)


def _choices() -> str:
    return ", ".join(map(repr, STRATEGIES))


@runtime_checkable
class DuplicateChecker(Protocol):
    """Decides which calls are duplicates."""

    def is_duplicate(self, name: str, arguments: dict[str, Any]) -> bool: ...

    def record(self, name: str, arguments: dict[str, Any]) -> None: ...


class DuplicateCheckerAdapter:
    """A `Deduplicator` whose decisions are those of an object with two methods."""

    def __init__(self, decides: DuplicateChecker) -> None:
        self._decides = decides
        self._results: MatchingDeduplicator[Any] = ExactDeduplicator()

    def find(self, scope: str, name: str, arguments: dict[str, Any], resource: Hashable | None) -> ToolResult | None:
        if not self._decides.is_duplicate(name, arguments):
            return None
        return self._results.find(scope, name, arguments, resource)

    def remember(
        self, scope: str, name: str, arguments: dict[str, Any], resource: Hashable | None, result: ToolResult
    ) -> None:
        self._results.remember(scope, name, arguments, resource, result)
        self._decides.record(name, arguments)

    def forget(self, scope: str | None, resource: Hashable | None = None) -> None:
        self._results.forget(scope, resource)

    def is_duplicate(self, name: str, arguments: dict[str, Any]) -> bool:
        return self._decides.is_duplicate(name, arguments)

    def record(self, name: str, arguments: dict[str, Any], result: ToolResult | None = None) -> None:
        self._decides.record(name, arguments)
        if result is not None:
            self._results.record(name, arguments, result)
