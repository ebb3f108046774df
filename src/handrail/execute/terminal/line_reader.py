"""The terminal of this process: lines to it, and lines from it while the event loop goes on.

Questions go to stderr: stdout is for the answers of the program.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios

_LONGEST_LINE = 1 << 20


def has_terminal() -> bool:
    """Whether a person can be shown a question and can answer it."""
    return all(each is not None and each.isatty() for each in (sys.stdin, sys.stderr))


def tell(line: str = "") -> None:
    """Print a line for the person, beside the answers of the program."""
    _write(f"{line}\n")


async def read_word(question: str) -> str:
    """A person's decision on what they have just been shown, in small letters."""
    discard_typed_input()
    return (await read_line(question)).lower()


def discard_typed_input() -> None:
    """Drop what was typed before a question was there: nobody has answered what they have not seen."""
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def read_line(prompt: str) -> str:
    """A line from the terminal, while the event loop goes on; an end of file is an empty one."""
    _write(prompt)
    loop, typed, handle = asyncio.get_running_loop(), asyncio.Event(), sys.stdin.fileno()
    loop.add_reader(handle, typed.set)
    try:
        await typed.wait()
    except asyncio.CancelledError:
        tell()
        raise
    finally:
        loop.remove_reader(handle)
    return os.read(handle, _LONGEST_LINE).decode(errors="replace").strip()


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
