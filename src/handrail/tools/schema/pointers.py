"""Places in a schema, as JSON Pointers, and what a `$ref` names."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote


def pointer_below(pointer: str, *steps: str | int) -> str:
    escaped = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return "/".join((pointer, *escaped))


def target_of(root: dict[str, Any], reference: Any) -> tuple[str, Any] | None:
    """The place that a reference leads to in the same schema, and what is there; None if it cannot be followed."""
    if not isinstance(reference, str):
        return None
    reference = reference.removeprefix(root.get("$id", "")) if isinstance(root.get("$id"), str) else reference
    pointer = unquote(reference)
    if pointer in ("#", ""):
        return "#", root
    if not pointer.startswith("#/"):
        return _anchored(root, pointer[1:], "#") if pointer.startswith("#") else None
    found: Any = root
    for part in pointer[2:].split("/"):
        step = part.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(step)] if isinstance(found, list) else found[step]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return pointer, found


def has_inner_ids(value: Any, *, inner: bool = False) -> bool:
    """Whether a part of the schema has an identity of its own: then a reference in it means something else."""
    if isinstance(value, dict):
        if inner and isinstance(value.get("$id"), str):
            return True
        return any(has_inner_ids(item, inner=True) for item in value.values())
    return isinstance(value, list) and any(has_inner_ids(item, inner=True) for item in value)


def _anchored(value: Any, anchor: str, pointer: str) -> tuple[str, Any] | None:
    if isinstance(value, dict):
        if value.get("$anchor") == anchor:
            return pointer, value
        items: Any = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return None
    for key, item in items:
        if (found := _anchored(item, anchor, pointer_below(pointer, key))) is not None:
            return found
    return None
