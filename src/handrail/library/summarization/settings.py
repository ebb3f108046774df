"""How much a model is given at once, and how much in all."""

from __future__ import annotations

from dataclasses import dataclass

from handrail.core.errors import UsageError

_LEAST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizationSettings:
    piece: int = 8_000
    """Characters of text in one request. About 4 are a token; what the model may answer comes on top."""
    overlap: int = 0
    """Characters that a piece repeats of the one before, for questions whose answer may lie across a cut."""
    concurrency: int = 4
    """Requests at once."""
    most: int = 2_000_000
    """Characters of all texts of one call."""
    timeout: float = 600.0
    """Seconds for a whole call."""

    def __post_init__(self) -> None:
        if self.piece < _LEAST:
            raise UsageError(f"a piece must have at least {_LEAST} characters, not {self.piece}")
        if not 0 <= self.overlap <= self.piece // 4:
            raise UsageError(f"the overlap must be from 0 to a quarter of a piece, not {self.overlap}")
        if self.concurrency < 1 or self.most < 1 or not self.timeout > 0:
            raise UsageError("concurrency, most and timeout must be more than 0")
