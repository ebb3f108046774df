"""The schema that Claude can be held to for a reply, where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from handrail.models.anthropic.strict_schemas import fits_strict_budget
from handrail.models.identity_cache import cached_by_identity
from handrail.models.projection.project import project
from handrail.models.projection.rules import ANTHROPIC_REPLY
from handrail.models.reply_schemas import has_whole_shape


@cached_by_identity
def anthropic_reply_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """A schema that Claude can be held to; None if there is none, as for a map or a type that contains itself.

    The service refuses a whole request with another one.
    """
    told = project(schema, ANTHROPIC_REPLY)
    held = has_whole_shape(told) and not _is_recursive(told.schema) and fits_strict_budget(told.schema)
    return told.schema if held else None


def _is_recursive(schema: dict[str, Any]) -> bool:
    named = {f"#/$defs/{name}": set(_references(part)) for name, part in schema.get("$defs", {}).items()}
    if "#" in _references(schema):
        return True
    for name, reached in named.items():
        waiting = list(reached)
        while waiting:
            for more in named.get(waiting.pop(), ()):
                if more not in reached:
                    reached.add(more)
                    waiting.append(more)
        if name in reached:
            return True
    return False


def _references(schema: Any) -> Iterator[str]:
    match schema:
        case {"$ref": str(reference)}:
            yield reference
        case dict():
            for part in schema.values():
                yield from _references(part)
        case list():
            for part in schema:
                yield from _references(part)
