"""Places in arguments that a schema declares as secret, as JSON pointers (RFC 6901): `/auth/password`, `/users/0/key`.

A question masks by place and not by name. A free-form object beside a declared `password` may have a key of the same
name, and what a name alone would hide there would run unseen.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from handrail.core.redact import MASK, has_masked, mask_fields


def child_pointer(place: str, step: str | int) -> str:
    """The place of a field or an item."""
    return f"{place}/{str(step).replace('~', '~0').replace('/', '~1')}"


def mask_pointers(value: Any, places: Collection[str]) -> Any:
    """The same JSON value with the mask at these places. A word without `/` in front is the name of a field at any
    depth: questions of earlier versions have names in their record."""
    if not places:
        return value
    names = frozenset(each for each in places if not each.startswith("/"))
    return mask_fields(_masked(value, "", frozenset(places) - names), names)


def has_mask_at(value: Any, places: Collection[str]) -> bool:
    """Whether the mask stands at one of these places."""
    if not places:
        return False
    names = frozenset(each for each in places if not each.startswith("/"))
    return has_masked(value, names) or _has_mask(value, "", frozenset(places) - names)


def _masked(value: Any, here: str, places: frozenset[str]) -> Any:
    if here in places:
        return MASK
    match value:
        case dict():
            return {key: _masked(item, child_pointer(here, key), places) for key, item in value.items()}
        case list() | tuple():
            return [_masked(item, child_pointer(here, index), places) for index, item in enumerate(value)]
    return value


def _has_mask(value: Any, here: str, places: frozenset[str]) -> bool:
    if here in places:
        return bool(value == MASK)
    match value:
        case dict():
            return any(_has_mask(item, child_pointer(here, key), places) for key, item in value.items())
        case list() | tuple():
            return any(_has_mask(item, child_pointer(here, index), places) for index, item in enumerate(value))
    return False
