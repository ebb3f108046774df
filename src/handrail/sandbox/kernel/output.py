"""What a cell prints, read from two pipes and bounded: the beginning is kept, the rest is counted."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Callable

_CHUNK = 2**16
_MOST_IN_A_PIPE = 2**20
_FLOOD = 10

_decoder = codecs.getincrementaldecoder("utf-8")


class InterpreterOutput:
    """Both streams of one interpreter. Nothing is read between cells, so that a full pipe stops whoever prints."""

    def __init__(self, output: int, errors: int, limit: int) -> None:
        self._fds = (output, errors)
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._flooded: Callable[[], None] = lambda: None
        self._clear()

    def begin(self, flooded: Callable[[], None]) -> None:
        """A new cell; `flooded` is called once if it prints ten times what is kept."""
        self._clear()
        self._flooded = flooded

    def listen(self) -> None:
        for index, fd in enumerate(self._fds):
            self._loop.add_reader(fd, self._read, index)

    def rest(self) -> None:
        for fd in self._fds:
            self._loop.remove_reader(fd)

    def finish(self) -> tuple[str, str, int]:
        """What was printed until now, on each, and how many characters more there were."""
        self._flooded = lambda: None
        for index in range(len(self._fds)):
            for _ in range(_MOST_IN_A_PIPE // _CHUNK):
                if not self._read(index):
                    break
            self._take(index, b"", final=True)
        output, errors = ("".join(pieces) for pieces in self._kept)
        return output, errors, self._seen - len(output) - len(errors)

    def _clear(self) -> None:
        self._kept: tuple[list[str], list[str]] = ([], [])
        self._decoders = (_decoder("backslashreplace"), _decoder("backslashreplace"))
        self._seen = 0

    def _read(self, index: int) -> bool:
        """Whether there may be more."""
        try:
            data = os.read(self._fds[index], _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._loop.remove_reader(self._fds[index])
            return False
        self._take(index, data)
        return True

    def _take(self, index: int, data: bytes, final: bool = False) -> None:
        text = self._decoders[index].decode(data, final)
        room = max(self._limit - self._seen, 0)
        if room and text:
            self._kept[index].append(text[:room])
        self._seen += len(text)
        if self._seen > _FLOOD * self._limit:
            flooded, self._flooded = self._flooded, lambda: None
            flooded()
