"""A deduplicator with two methods, `is_duplicate` and `record`, as a converser program writes one.

It says whether a call is a duplicate and knows no results. This adapter keeps the results, by scope and equal
arguments. A call that it takes for a duplicate, but that has no result here, runs.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol, runtime_checkable

from handrail.core.calls import ToolResult
from handrail.execute.dedupe.matching import MatchingDeduplicator
from handrail.execute.dedupe.strategies import ExactDeduplicator


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
