"""Progress of a command as one line that changes: on a terminal in place, elsewhere once in a while."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

_EVERY = 10.0
"""Seconds between two lines where nobody watches."""


class ProgressLine:
    """Use it with `with`; pass its `show` as the one that gets each line."""

    def __init__(
        self, out: TextIO | None = None, *, prefix: str = "  ", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._out = sys.stdout if out is None else out
        self._prefix = prefix
        self._clock = clock
        self._shown_at = clock()

    def show(self, line: str) -> None:
        text = f"{self._prefix}{line.strip()}"
        if self._out.isatty():
            width = shutil.get_terminal_size().columns - 1
            self._out.write(f"\r\x1b[K{text[:width]}")
            self._out.flush()
        elif self._clock() - self._shown_at >= _EVERY:
            self._shown_at = self._clock()
            self._out.write(f"{text[:100]}\n")
            self._out.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._out.isatty():
            self._out.write("\r\x1b[K")
            self._out.flush()
