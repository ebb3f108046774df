"""Finding out where the paths among a call's arguments lead, before anybody decides on the call."""

from __future__ import annotations

import asyncio
from typing import Any

from handrail.core.location import Locations
from handrail.tools.tool import Tool

_WITHIN = 10.0
"""Seconds in which a disk has said where a path leads."""


async def locate_arguments(tool: Tool, arguments: dict[str, Any]) -> Locations:
    """Nothing for a tool that resolves no paths. Of a disk that does not answer, nobody can tell."""
    if tool.locate is None:
        return {}
    try:
        return await asyncio.wait_for(asyncio.to_thread(tool.locate, arguments), _WITHIN)
    except TimeoutError:
        return dict.fromkeys(arguments)
