"""The same call failing in the same way, again and again: seen, and not run any more."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.errors import LimitReached
from handrail.core.jsontext import JSONTextError, parse_object


class Repeats:
    """Counts failures of one run by what was asked and what was answered."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._failed: Counter[bytes] = Counter()

    def note(self, call: ToolCall, result: ToolResult) -> None:
        key = _key(call)
        if not result.is_error:
            del self._failed[key]
        elif result.outcome not in ("cancelled", "needs_confirmation"):
            self._failed[key] += 1

    def refusal(self, call: ToolCall) -> LimitReached | None:
        """Why a call is not worth running once more."""
        if self._failed[_key(call)] < self._most:
            return None
        return LimitReached(
            f"{call.name!r} has failed {self._most} times with these arguments; it was not run again. "
            "Change the arguments, use another tool, or answer without it"
        )


def _key(call: ToolCall) -> bytes:
    arguments: Any = call.arguments
    if isinstance(arguments, str):
        try:
            arguments = parse_object(arguments)
        except JSONTextError:
            arguments = call.arguments
    return msgspec.json.encode([call.name, arguments], order="deterministic")
