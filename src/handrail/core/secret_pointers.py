"""Places in arguments that a schema declares as secret, as JSON pointers (RFC 6901): `/auth/password`, `/users/0/key`.

A question masks by place and not by name. A free-form object beside a declared `password` may have a key of the same
name, and what a name alone would hide there would run unseen.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from handrail.core.display import exact_json
from handrail.core.errors import UsageError
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


def restore_masked(edited: Any, shown: Any, before: Any) -> Any:
    """Return the edited value, with every mask replaced by the secret that it hides.

    A mask is replaced only where it still stands in the place where it was shown. In a list
    with several masked items an item keeps its secret only if nothing else of it was changed:
    otherwise two items could have been swapped, and one would get the secret of the other.

    Args:
        edited: What the person made of `shown`.
        shown: The arguments as they were shown, with secrets masked.
        before: The arguments that `shown` was made from.

    Raises:
        UsageError: A mask stands where it is not clear which secret it hides.
    """
    match edited, shown, before:
        case dict(), dict(), dict():
            both = shown.keys() & before.keys()
            return {
                key: restore_masked(value, shown[key], before[key]) if key in both else _without_mask(value, key)
                for key, value in edited.items()
            }
        case list(), list() | tuple(), list() | tuple() if len(edited) == len(shown):
            several = sum(map(holds_mask, shown)) > 1
            each = zip(edited, shown, before, strict=True)
            return [_unmasked_item(*item) if several else restore_masked(*item) for item in each]
    return before if type(edited) is type(shown) and edited == shown else _without_mask(edited)


def holds_mask(value: Any) -> bool:
    """Whether the mask stands anywhere in a JSON value, names of fields included."""
    match value:
        case str():
            return MASK in value
        case dict():
            return any(MASK in str(key) or holds_mask(item) for key, item in value.items())
        case list() | tuple():
            return any(map(holds_mask, value))
    return False


def _unmasked_item(edited: Any, shown: Any, before: Any) -> Any:
    return before if exact_json(edited) == exact_json(shown) else _without_mask(edited)


def _without_mask(value: Any, key: str = "") -> Any:
    if MASK in key or holds_mask(value):
        raise UsageError(f"{MASK} stands for what is hidden; leave that value as it was shown, or write it out")
    return value
