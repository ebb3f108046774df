"""Tools that say when they are under way and when they have stopped, through a pipe that has a name."""

from __future__ import annotations

import asyncio
import os
import threading

from handrail import tool


@tool(side_effects=True)
async def in_the_loop(pipe: str) -> str:
    """Work until cancelled."""
    end = os.open(pipe, os.O_WRONLY)
    try:
        os.write(end, b"under way\n")
        await asyncio.Event().wait()
    finally:
        os.close(end)
    return "never"


@tool(side_effects=True, isolation="process")
def in_a_process(pipe: str) -> str:
    """Work until killed."""
    os.write(os.open(pipe, os.O_WRONLY), b"under way\n")
    threading.Event().wait()
    return "never"
