"""Tools of a listing that are none: the SDK would refuse the whole list for one of them, or drop it without a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from mcp_types import ListToolsResult
from mcp_types.methods import SERVER_RESULTS
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from pydantic import TypeAdapter, ValidationError

from handrail.mcp.client.failures import clean_server_text, schema_mistakes

_LISTED = "dev.handrail/listed"
"""Where in `_meta` a listing carries the names that it had, each with why it was taken out, or None."""

_MOST = 1_000
"""Tools at once that are looked at one by one: it is done in the loop."""


def remove_malformed_tools(result: dict[str, Any], *, modern: bool) -> None:
    """Take out of a listing what the SDK would refuse. Any other result is left as it is."""
    tools = result.get("tools")
    if not isinstance(tools, list) or len(tools) > _MOST or "content" in result:
        return
    sound = _why_not(modern, tools) is None
    listed: dict[str, str | None] = {}
    good = []
    for number, tool in enumerate(tools, 1):
        why = None if sound else _why_not(modern, [tool])
        if why is None:
            good.append(tool)
        name = tool.get("name") if isinstance(tool, dict) else None
        name = name if isinstance(name, str) else f"(number {number})"
        listed[name] = listed.get(name) or why
    meta = result.get("_meta")
    result["_meta"] = {**(meta if isinstance(meta, dict) else {}), _LISTED: listed}
    result["tools"] = good


def missing_tools(page: ListToolsResult) -> Iterator[tuple[str, str]]:
    """The tools that the server listed and the page does not have, and why."""
    listed = (page.meta or {}).get(_LISTED)
    there = {tool.name for tool in page.tools}
    for name, why in (listed if isinstance(listed, dict) else {}).items():
        if why is not None:
            yield name, f"it is not described as the protocol wants it: {why}"
        elif name not in there:
            yield name, "the headers that it wants its arguments in (`x-mcp-header`) are not valid"


@cache
def _shapes(modern: bool) -> tuple[TypeAdapter[Any], ...]:
    """The SDK reads each tool twice: as the revision of its era has it, and as it has it itself."""
    revision = LATEST_MODERN_VERSION if modern else LATEST_HANDSHAKE_VERSION
    surface: Any = SERVER_RESULTS[("tools/list", revision)]
    lists: list[Any] = [kind.model_fields["tools"].annotation for kind in (surface, ListToolsResult)]
    return tuple(map(TypeAdapter, lists))


def _why_not(modern: bool, tools: list[Any]) -> str | None:
    try:
        for shape in _shapes(modern):
            shape.validate_python(tools, by_name=False)
    except ValidationError as error:
        return clean_server_text(re.sub(r"^0[.:] ?", "", schema_mistakes(error)))
    return None
