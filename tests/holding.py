"""Work that never ends, in Python and in C code that lets no other thread of its interpreter run.

Nothing inside the interpreter can end a test that waits for such work: whoever may have to wait does so in another
process, by `output_of`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_MODULUS = (1 << 20_011) - 1


def count() -> None:
    """Keep the interpreter busy for ever."""
    while True:
        pass


def match(size: int = 200) -> None:
    """Match a regular expression that tries every path: each character doubles the time."""
    re.match(r"(a|a)*b", "a" * size)


def multiply(size: int = 24) -> None:
    """Square a number of 20,000 bits: each step of `size` doubles how often, and by default it takes hours."""
    pow(3, 1 << (1 << size), _MODULUS)


async def match_in_the_loop() -> None:
    """Match for ever, and never await."""
    match()


def size_for_seconds(work: Callable[[int], None]) -> int:
    """The size with which `match` or `multiply` holds the interpreter of this machine for two to four seconds."""
    size, taken = 2, 0.0
    while taken < 0.0625:
        size += 1
        start = time.thread_time()
        work(size)
        taken = time.thread_time() - start
    return size + 5


def output_of(program: str, *arguments: str) -> str:
    """What a program of its own prints. Fails if it has not ended after two minutes."""
    asked = [sys.executable, "-c", program, *arguments]
    return subprocess.run(asked, cwd=_ROOT, timeout=120, check=True, stdout=subprocess.PIPE, text=True).stdout
