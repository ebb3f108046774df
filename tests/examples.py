"""On how many examples a property is tried.

`make test` tries a quarter, always the same ones. `HYPOTHESIS_PROFILE=explore`, which `make soak` sets, tries all of
them, and others each time: that is what finds something new.
"""

from __future__ import annotations

import os

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "same-everywhere")
_FEW = 10


def examples(count: int) -> int:
    return count if PROFILE == "explore" else min(count, max(_FEW, count // 4))
