"""What a cell prints, kept up to a limit. Monty's own thread hands it over, piece by piece, and waits meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

FLOOD = 10
"""So many times the limit ends a cell."""


class MontyOutput:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.on_flood: Callable[[], object] = ignore_output
        self._pieces: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._kept = 0
        self._seen = 0

    def take(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        was_flooded = self.is_flooded
        self._seen += len(text)
        if piece := text[: self._limit - self._kept]:
            self._kept += len(piece)
            self._pieces[stream].append(piece)
        if self.is_flooded and not was_flooded:
            self.on_flood()

    @property
    def is_flooded(self) -> bool:
        return self._seen > FLOOD * self._limit

    @property
    def stdout(self) -> str:
        return "".join(self._pieces["stdout"])

    @property
    def stderr(self) -> str:
        return "".join(self._pieces["stderr"])

    @property
    def dropped(self) -> int:
        return self._seen - self._kept


def ignore_output() -> None:
    """Nobody is to be told."""
