"""Meaning as vectors, offline: the wordllama model that ships inside its own package.

Averages of word vectors: fast and small, good at topics, blind to word order.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from handrail.core.errors import MissingExtra


class WordLlamaEmbedder:
    """An `Embedder`. Making one loads the weights, in about 0.2 s; nothing is downloaded.

    Raises:
        MissingExtra: The package is not installed.
    """

    def __init__(self) -> None:
        self._embed: Callable[[list[str]], Any] = _load()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if not texts:
            return []
        # A lone surrogate cannot be passed to the tokenizer, which is not Python.
        sendable = [text.encode("utf-8", "replace").decode() for text in texts]
        return [_unit(vector) for vector in self._embed(sendable).tolist()]


def _load() -> Callable[[list[str]], Any]:
    try:
        with _logging_kept():
            import wordllama
    except ImportError as error:
        raise MissingExtra("semantic matching", "semantic") from error
    # The package looks for its tokenizer below the cache folder only, and would fetch it although it has it.
    folder = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(dim=256, cache_dir=folder, disable_download=True)
    embed: Callable[[list[str]], Any] = model.embed
    return embed


@contextmanager
def _logging_kept() -> Iterator[None]:
    """Undo what the package does to the root logger when it is imported: it is the program's."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        yield
    finally:
        root.setLevel(level)
        for handler in [handler for handler in root.handlers if handler not in handlers]:
            root.removeHandler(handler)


def _unit(vector: list[float]) -> list[float]:
    """The vector at length 1. A text without a known word has a direction of its own, so that it is near no other."""
    length = math.hypot(*vector)
    if length == 0:
        return [0.0] * len(vector) + [1.0]
    return [part / length for part in vector] + [0.0]
