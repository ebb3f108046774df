"""What a deduplicator is. How one decides is in `strategies.py`; when it is asked is in `memory.py`."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import Any, Protocol, runtime_checkable

import msgspec

from handrail.core.calls import ToolResult


@runtime_checkable
class Deduplicator(Protocol):
    """Answers a repeated call from its first result.

    A `scope` is a run and a principal: nobody is answered from another's memory. A
    `resource` is what the call reads or changes; None means that it cannot be told.
    Every method returns at once, and `forget` does not fail.
    """

    def find(self, scope: str, name: str, arguments: dict[str, Any], resource: Hashable | None) -> ToolResult | None:
        """A copy of the remembered result that answers this call, as it was given to the call that ran."""
        ...

    def remember(
        self, scope: str, name: str, arguments: dict[str, Any], resource: Hashable | None, result: ToolResult
    ) -> None: ...

    def forget(self, scope: str | None, resource: Hashable | None = None) -> None:
        """Drop what a write may have changed: results of this resource and of none; without one, all of the scope.

        The scope None is every scope.
        """
        ...

    def is_duplicate(self, name: str, arguments: dict[str, Any]) -> bool:
        """Whether such a call was recorded, by programs that have no scopes."""
        ...

    def record(self, name: str, arguments: dict[str, Any], result: ToolResult | None = None) -> None:
        """Note a call for `is_duplicate`; with its result, for `find` in the scope "" too."""
        ...


def detached_result(result: ToolResult) -> ToolResult:
    """The same result with content of its own, so that whoever changes one does not change the other."""
    if not isinstance(result.content, dict | list):
        return result
    return msgspec.structs.replace(result, content=copy.deepcopy(result.content))
