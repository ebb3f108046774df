"""What a deduplicator is, and the one memory behind every strategy: bounded, with a matcher that says what is the same.

It lives in the process and holds whole results. A window is an option of it. When it is asked is in `reuse.py`.
"""

from __future__ import annotations

import copy
import hashlib
import math
import threading
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import msgspec

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.calls import ToolResult
from handrail.core.canonical import canonical_json
from handrail.core.errors import UsageError
from handrail.core.ports import Clock, SystemClock


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


MAX_ENTRIES = 128
"""Results kept in one scope; the one unused for longest goes first."""
_SHORT = 512
"""Bytes of a call that is its own identity."""
MAX_SCOPES = 64
"""Scopes kept; the one unused for longest goes first, with all its results."""


@dataclass(frozen=True, slots=True)
class MatchedCallKey:
    digest: bytes
    """The same for equal calls and for no others."""


K = TypeVar("K", bound=MatchedCallKey)


class CallMatcher(Protocol[K]):
    def key(self, name: str, arguments: dict[str, Any]) -> K: ...

    def nearest(self, key: K, others: Iterable[K]) -> K | None:
        """Which of the calls, none of them equal to this one, has the same answer. Later ones win a draw."""
        ...


@dataclass(frozen=True, slots=True)
class _RememberedCall(Generic[K]):
    key: K
    resource: Hashable | None
    result: ToolResult | None
    """The result; None for a call that was recorded without one: it is known, and answers nothing."""


_Entries = BoundedMemory[bytes, _RememberedCall[K]]


class MatchingDeduplicator(Generic[K]):
    """A `Deduplicator` over any matcher. It may be shared between threads, as the tool that owns it may be."""

    def __init__(
        self,
        matcher: CallMatcher[K],
        *,
        seconds: float | None = None,
        clock: Clock | None = None,
        max_entries: int = MAX_ENTRIES,
        max_scopes: int = MAX_SCOPES,
    ) -> None:
        if seconds is not None and not (seconds > 0 and math.isfinite(seconds)):
            raise UsageError(f"a window of {seconds!r} seconds cannot be used; give a number above 0, or None for ever")
        if max_entries < 1 or max_scopes < 1:
            raise UsageError(
                f"max_entries={max_entries!r} and max_scopes={max_scopes!r} must be at least 1; "
                "to remember nothing, leave the deduplicator out"
            )
        self._matcher = matcher
        self._seconds = seconds
        self._clock = clock or SystemClock()
        self._max_entries = max_entries
        self._scopes = BoundedMemory[str, _Entries[K]](max_scopes, lru=True)
        self._lock = threading.Lock()

    def find(self, scope: str, name: str, arguments: dict[str, Any], resource: Hashable | None) -> ToolResult | None:
        entry = self._lookup(scope, name, arguments)
        # A result for another resource is not this call's, whatever the arguments look like.
        if entry is None or entry.result is None or entry.resource != resource:
            return None
        return detached_result(entry.result)

    def remember(
        self, scope: str, name: str, arguments: dict[str, Any], resource: Hashable | None, result: ToolResult
    ) -> None:
        if not result.is_error:
            self._keep(scope, name, arguments, resource, detached_result(result))

    def forget(self, scope: str | None, resource: Hashable | None = None) -> None:
        with self._lock:
            for each in list(self._scopes) if scope is None else [scope]:
                if resource is None:
                    self._scopes.pop(each, None)
                elif (entries := self._scopes.get(each)) is not None:
                    for digest, entry in entries.items():
                        if entry.resource in (None, resource):
                            entries.pop(digest, None)

    def is_duplicate(self, name: str, arguments: dict[str, Any]) -> bool:
        return self._lookup("", name, arguments) is not None

    def record(self, name: str, arguments: dict[str, Any], result: ToolResult | None = None) -> None:
        if result is None:
            self._keep("", name, arguments, None, None)
        else:
            self.remember("", name, arguments, None, result)

    def _lookup(self, scope: str, name: str, arguments: dict[str, Any]) -> _RememberedCall[K] | None:
        key = self._matcher.key(name, arguments)
        with self._lock:
            entries = self._scopes.get(scope)
            if entries is None:
                return None
            if (same := entries.get(key.digest)) is not None:
                return same
            near = self._matcher.nearest(key, (entry.key for entry in entries.values()))
            return None if near is None else entries.get(near.digest)

    def _keep(
        self,
        scope: str,
        name: str,
        arguments: dict[str, Any],
        resource: Hashable | None,
        result: ToolResult | None,
    ) -> None:
        key = self._matcher.key(name, arguments)
        with self._lock:
            entries = self._scopes.get(scope)
            if entries is None:
                entries = self._scopes[scope] = BoundedMemory(
                    self._max_entries, seconds=self._seconds, now=self._clock.monotonic, lru=True
                )
            entries[key.digest] = _RememberedCall(key, resource, result)


def call_digest(name: str, arguments: dict[str, Any]) -> bytes:
    """What identifies a call: the tool and the canonical arguments, so that the order of keys does not matter.

    Raises:
        TypeError: The arguments are not JSON.
    """
    return hashlib.sha256(canonical_json([name, arguments])).digest()


def call_identity(name: str, arguments: dict[str, Any]) -> bytes:
    """The same as a digest, for calls that are under way: of a short call the text itself, which takes less time.

    Raises:
        TypeError: The arguments are not JSON.
    """
    text = canonical_json([name, arguments])
    return text if len(text) <= _SHORT else hashlib.sha256(text).digest()
