"""Meaning as vectors, for tests: texts are near if they share words. No model, and the same on every machine."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence

_WORD = re.compile(r"\w+")


class WordEmbedder:
    """An `Embedder`: each word adds to one of `dimensions` directions, chosen by its hash."""

    def __init__(self, dimensions: int = 256) -> None:
        self._dimensions = dimensions

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        # The last direction is for texts without words: they are near each other and nothing else.
        vector = [0.0] * self._dimensions + [0.0]
        for word in _WORD.findall(text.lower()):
            vector[self._direction(word)] += 1.0
        length = math.hypot(*vector)
        if length == 0:
            vector[-1] = length = 1.0
        return [part / length for part in vector]

    def _direction(self, word: str) -> int:
        hashed = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(hashed) % self._dimensions
