"""What differs between a JSON value that was recorded and the one of now, in words. A mask stands for any text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from handrail.core.secret_patterns import MASK

_SHOWN = 80
"""Characters of a value that are shown."""
_BEFORE = 20
"""Of them, those before the place where two texts part."""
_ABSENT = object()


def differences(recorded: Any, now: Any, path: str = "") -> Iterator[str]:
    """One line for each place that differs: `messages[1].user: recorded 'a', now 'b'`."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*recorded, *now)):
            inner = f"{path}.{key}" if path else str(key)
            yield from differences(recorded.get(key, _ABSENT), now.get(key, _ABSENT), inner)
    elif isinstance(recorded, list) and isinstance(now, list):
        for at in range(max(len(recorded), len(now))):
            was, is_ = (each[at] if at < len(each) else _ABSENT for each in (recorded, now))
            yield from differences(was, is_, f"{path}[{at}]")
    elif not _fits(recorded, now):
        was, is_ = _shown_pair(recorded, now)
        yield f"{path or 'it'}: recorded {was}, now {is_}"


def is_same(recorded: Any, now: Any) -> bool:
    return next(differences(recorded, now), None) is None


def _fits(recorded: Any, now: Any) -> bool:
    if isinstance(recorded, str) and isinstance(now, str):
        return recorded == now or (MASK in recorded and _pattern(recorded).fullmatch(now) is not None)
    if recorded == MASK:
        return now is not _ABSENT
    return type(recorded) is type(now) and bool(recorded == now)


def _pattern(recorded: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, recorded.split(MASK))), re.DOTALL)


def _shown_pair(recorded: Any, now: Any) -> tuple[str, str]:
    if not (isinstance(recorded, str) and isinstance(now, str)):
        return _cut(recorded), _cut(now)
    pairs = enumerate(zip(recorded, now, strict=False))
    parts = next((at for at, (one, other) in pairs if one != other), min(len(recorded), len(now)))
    start = 0 if max(len(recorded), len(now)) <= _SHOWN else max(0, parts - _BEFORE)
    return _from(recorded, start), _from(now, start)


def _from(text: str, start: int) -> str:
    shown = text[start : start + _SHOWN]
    return f"{'…' if start else ''}{shown!r}{'…' if start + _SHOWN < len(text) else ''}"


def _cut(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"
