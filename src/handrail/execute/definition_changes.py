"""What is different between two definitions of a tool, in words for the person who approved the first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

_MOST = 8
_LONGEST = 160
_CONTEXT = 20
_ABSENT: Any = object()


def describe_definition_changes(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, ...]:
    """Each fact that is not what it was, as `description: 'Pay.' is now 'Pay twice.'`; at most a handful."""
    found = tuple(_differences(before, after, ""))
    return found if len(found) <= _MOST else (*found[:_MOST], f"and {len(found) - _MOST} more")


def _differences(before: Any, after: Any, path: str) -> Iterator[str]:
    if before == after:
        return
    if not isinstance(before, dict) or not isinstance(after, dict):
        yield f"{path}: {_told(before, after)}"
        return
    for key in (*before, *(key for key in after if key not in before)):
        yield from _differences(before.get(key, _ABSENT), after.get(key, _ABSENT), f"{path}.{key}" if path else key)


def _told(before: Any, after: Any) -> str:
    if before is _ABSENT:
        return f"new, {_shown(after)}"
    if after is _ABSENT:
        return f"gone, was {_shown(before)}"
    if isinstance(before, str) and isinstance(after, str):
        before, after = _trimmed(before, after)
    return f"{_shown(before)} is now {_shown(after)}"


def _trimmed(before: str, after: str) -> tuple[str, str]:
    """Two texts from shortly before the place where they begin to differ."""
    same = next((at for at, (one, two) in enumerate(zip(before, after, strict=False)) if one != two), None)
    begin = max((min(len(before), len(after)) if same is None else same) - _CONTEXT, 0)
    if not begin:
        return before, after
    return "…" + before[begin:], "…" + after[begin:]


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
