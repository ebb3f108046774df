"""A call that was found in a text, and what its readers share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

Schemas = Mapping[str, dict[str, Any]]
"""The offered tools' input schemas by name: they tell text from numbers where a format does not."""


class FoundCall(Struct, frozen=True):
    """A call in a text. The arguments are JSON, or what the model wrote instead of it."""

    name: str
    arguments: str


Reader = Callable[[str, Schemas], tuple[FoundCall, ...] | None]
"""Given the inside of a call: the calls in it; None if there is no one reading."""


def name_without_namespace(name: str, schemas: Schemas) -> str:
    """A name without the namespace that some formats put before it."""
    bare = name.removeprefix("functions.")
    return bare if name not in schemas else name


def json_object_of(pairs: Iterable[tuple[str, str | msgspec.Raw]]) -> str:
    """An object of values that are JSON already."""
    return (
        "{" + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {json_text_of(value)}" for key, value in pairs) + "}"
    )


def json_text_of(raw: str | msgspec.Raw) -> str:
    return raw if isinstance(raw, str) else bytes(raw).decode().strip()
