"""Arguments that come leaf by leaf, each with its JSONPath: `{"jsonPath": "$.city", "stringValue": "Lis"}`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from handrail.core.errors import ProtocolError

_STEP = re.compile(r"""\.([^.\[\]'"]+)|\[(\d{1,6})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_KINDS = ("stringValue", "numberValue", "boolValue", "nullValue")

Path = tuple[str | int, ...]


class PartialArguments:
    """Pieces of one text join; the whole is built once, at the end."""

    def __init__(self) -> None:
        self._leaves: dict[str, list[Any]] = {}

    def add(self, partial: Mapping[str, Any]) -> None:
        kind = next((kind for kind in _KINDS if kind in partial), None)
        place = partial.get("jsonPath")
        if not isinstance(place, str):
            raise ProtocolError("a piece of a call's arguments does not say where it belongs")
        pieces = self._leaves.setdefault(place, [])
        if kind is not None:
            pieces.append(None if kind == "nullValue" else partial[kind])

    def value(self) -> dict[str, Any]:
        whole: dict[str, Any] = {}
        for place, pieces in self._leaves.items():
            leaf = "".join(pieces) if all(isinstance(piece, str) for piece in pieces) else pieces[-1]
            _put(whole, _steps(place), leaf)
        return whole


def _steps(place: str) -> Path:
    steps: list[str | int] = []
    at = 1
    while at < len(place):
        found = _STEP.match(place, at)
        if found is None:
            raise ProtocolError(f"the place {place!r} in a call's arguments cannot be read")
        steps.append(_step(found))
        at = found.end()
    if not place.startswith("$") or not steps:
        raise ProtocolError(f"the place {place!r} in a call's arguments cannot be read")
    return tuple(steps)


def _step(found: re.Match[str]) -> str | int:
    name, index, single, double = found.groups()
    if index is not None:
        return int(index)
    if name is not None:
        return name
    quoted = double if single is None else single.replace("\\'", "'").replace('"', '\\"')
    try:
        return msgspec.json.decode(f'"{quoted}"', type=str)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"the key {quoted!r} in a call's arguments cannot be read") from error


def _put(whole: dict[str, Any], steps: Path, leaf: Any) -> None:
    inside: Any = whole
    for step, following in itertools.pairwise(steps):
        empty: Any = [] if isinstance(following, int) else {}
        inside = _at(inside, step, empty)
    _at(inside, steps[-1], leaf)


def _at(container: Any, step: str | int, new: Any) -> Any:
    """What is at a step, put there if nothing was."""
    if isinstance(step, str) and isinstance(container, dict):
        return container.setdefault(step, new)
    if isinstance(step, int) and isinstance(container, list) and step <= len(container):
        if step == len(container):
            container.append(new)
        return container[step]
    raise ProtocolError(f"the pieces of a call's arguments do not fit together at {step!r}")
