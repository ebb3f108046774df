"""Calls that differ only in how their short texts are worded.

Same tool, same keys, equal numbers, flags and single words; each text of a few
words agrees by the rules of `prose.py`, and its vector is near.

What it can get wrong:
- Two names in lower case ("flights to rome", "flights to oslo") are told apart by the
  vector alone, as are opposites that the list of deciding words lacks.
- The list is English; in other languages the vector decides. Scripts without spaces are
  compared to the letter, which is safe and finds nothing.
- A tool that treats two wordings differently (a prompt, a message to send, code)
  would get an answer that is not its own: give it the exact deduplicator.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any

from handrail.core.canonical import canonical_json
from handrail.core.ports import Embedder
from handrail.execute.dedupe.matching import MatchedCallKey, call_digest
from handrail.execute.dedupe.short_texts import ShortText, read_short_text, short_texts_agree


@dataclass(frozen=True, slots=True)
class SemanticCallKey(MatchedCallKey):
    shape: bytes
    """Of everything but the texts: equal for calls that may be near."""
    texts: tuple[ShortText, ...]
    vectors: tuple[Sequence[float], ...]


@dataclass(frozen=True, slots=True)
class SemanticMatcher:
    embedder: Embedder
    threshold: float

    def key(self, name: str, arguments: dict[str, Any]) -> SemanticCallKey:
        texts: list[ShortText] = []
        shape = hashlib.sha256(canonical_json([name, _shape(arguments, texts)])).digest()
        vectors = self.embedder.embed([prose.text for prose in texts]) if texts else []
        return SemanticCallKey(call_digest(name, arguments), shape, tuple(texts), tuple(vectors))

    def nearest(self, key: SemanticCallKey, others: Iterable[SemanticCallKey]) -> SemanticCallKey | None:
        best, best_score = None, self.threshold
        for other in others:
            if key.shape == other.shape and all(map(short_texts_agree, key.texts, other.texts)):
                score = min(map(_product, key.vectors, other.vectors), default=1.0)
                if score >= best_score:
                    best, best_score = other, score
        return best


def _shape(value: Any, texts: list[ShortText]) -> Any:
    """The value with every prose text taken out and put on the list. The tags keep a hole apart from any value."""
    match value:
        case dict():
            return ["object", {key: _shape(value[key], texts) for key in sorted(value)}]
        case list() | tuple():
            return ["list", [_shape(item, texts) for item in value]]
        case str() if (prose := read_short_text(value)) is not None:
            texts.append(prose)
            return ["prose"]
    return ["value", value]


def _product(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(map(mul, one, other))
