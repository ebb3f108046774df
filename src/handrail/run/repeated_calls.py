"""The same call again and again, failing or with the same answer: seen, and not run any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

import msgspec

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.errors import LimitReached


class RepeatedCalls:
    """Counts for one run, by what was asked, how often it failed and how often the answer was the same."""

    def __init__(self, failures: int, answers: int) -> None:
        self._failures = failures
        self._answers = answers
        self._failed: Counter[Hashable] = Counter()
        self._answered: dict[Hashable, tuple[Any, int]] = {}
        """The last answer of a read, and how often it came in a row."""

    def note(self, call: ToolCall, result: ToolResult, *, reads: bool) -> None:
        key = _key(call)
        if not result.is_error:
            del self._failed[key]
            if reads:
                last, times = self._answered.get(key, (None, 0))
                self._answered[key] = result.content, times + 1 if times and last == result.content else 1
        elif result.outcome not in ("cancelled", "needs_confirmation"):
            self._failed[key] += 1

    def refusal(self, call: ToolCall) -> LimitReached | None:
        """Why a call is not worth running once more."""
        key = _key(call)
        if self._failed[key] >= self._failures:
            what = f"has failed {self._failures} times with these arguments"
        elif self._answered.get(key, (None, 0))[1] >= self._answers:
            what = f"has given the same answer to these arguments {self._answers} times"
        else:
            return None
        return LimitReached(
            f"{call.name!r} {what}; it was not run again. Change the arguments, use another tool, or answer without it"
        )


def _key(call: ToolCall) -> Hashable:
    """What was asked, as it was written: a model that goes round in circles writes the same."""
    arguments = call.arguments
    return call.name, arguments if isinstance(arguments, str) else msgspec.json.encode(arguments, order="deterministic")
