"""How a program that serves is told to end."""

from __future__ import annotations

import asyncio
import signal


async def told_to_end() -> None:
    """Wait until SIGTERM or Ctrl-C asks for the end of the program."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, told.set)
    try:
        await told.wait()
    finally:
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
