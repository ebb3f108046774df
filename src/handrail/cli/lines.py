"""One line from the terminal, while the event loop goes on."""

from __future__ import annotations

import asyncio
import os
import sys

import click

_LONGEST_LINE = 1 << 20


async def read_line(prompt: str) -> str:
    """A line from the terminal, while the event loop goes on; an end of file is an empty one."""
    click.echo(prompt, nl=False, err=True)
    loop, typed, handle = asyncio.get_running_loop(), asyncio.Event(), sys.stdin.fileno()
    loop.add_reader(handle, typed.set)
    try:
        await typed.wait()
    finally:
        loop.remove_reader(handle)
    return os.read(handle, _LONGEST_LINE).decode(errors="replace").strip()
