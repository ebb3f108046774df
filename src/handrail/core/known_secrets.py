"""The keys that this process was configured with: known by value, and masked wherever they turn up.

A key of a form that nobody knows is still a key. Whoever reads one from the environment or
from a file says so here, once; records, errors, spans and logs are then without it. The
values are kept as long as the process lives: a key that was replaced is still a secret.
"""

from __future__ import annotations

import json

from handrail.core.secret_patterns import MASK

SHORTEST = 8
"""A shorter value would mask ordinary words; a key of fewer characters protects nothing."""

_known: tuple[str, ...] = ()
"""Each value and, where that is different, how it is written inside JSON; the longest first."""


def remember_secret(value: str) -> None:
    """Have this value masked from now on in every record, error, span and log line of this process."""
    global _known
    text = str(value).strip()
    if len(text) >= SHORTEST:
        written = json.dumps(text, ensure_ascii=False)[1:-1]
        _known = tuple(sorted({*_known, text, written}, key=len, reverse=True))


def may_hold_known(text: str) -> bool:
    """Whether one of the values is in a text, or in the JSON of a value."""
    return _known != () and any(secret in text for secret in _known)


def mask_known(text: str) -> str:
    """The text without the values that were remembered."""
    for secret in _known:
        if secret in text:
            text = text.replace(secret, MASK)
    return text
