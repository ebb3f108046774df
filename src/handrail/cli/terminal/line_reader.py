"""One line from the terminal, while the event loop goes on; and a word that answers what was shown, not what comes."""

from __future__ import annotations

import asyncio
import os
import sys
import termios

import click

_LONGEST_LINE = 1 << 20


async def read_word(question: str) -> str:
    """A person's word on what they have just been shown, in small letters."""
    discard_typed_input()
    return (await read_line(question)).lower()


def discard_typed_input() -> None:
    """Drop what was typed before a question was there: nobody has answered what they have not seen."""
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def read_line(prompt: str) -> str:
    """A line from the terminal, while the event loop goes on; an end of file is an empty one."""
    click.echo(prompt, nl=False, err=True)
    loop, typed, handle = asyncio.get_running_loop(), asyncio.Event(), sys.stdin.fileno()
    loop.add_reader(handle, typed.set)
    try:
        await typed.wait()
    except asyncio.CancelledError:
        click.echo(err=True)
        raise
    finally:
        loop.remove_reader(handle)
    return os.read(handle, _LONGEST_LINE).decode(errors="replace").strip()
