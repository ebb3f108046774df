"""The loop: `Runner`, its limits, what a turn offers, and a run's history.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily

if TYPE_CHECKING:
    from handrail.run.agents import Agent as Agent
    from handrail.run.answers import answer_of as answer_of
    from handrail.run.history import conversation_of as conversation_of, replay as replay
    from handrail.run.limits import Limits as Limits
    from handrail.run.offering import Offering as Offering, Programs as Programs
    from handrail.run.runner import Runner as Runner
    from handrail.run.trim import (
        Repeated as Repeated,
        SamePlace as SamePlace,
        WiderListing as WiderListing,
        trimmed as trimmed,
    )

export_lazily(
    __name__,
    {
        "handrail.run.agents": "Agent",
        "handrail.run.answers": "answer_of",
        "handrail.run.history": "conversation_of replay",
        "handrail.run.limits": "Limits",
        "handrail.run.offering": "Offering Programs",
        "handrail.run.runner": "Runner",
        "handrail.run.trim": "Repeated SamePlace WiderListing trimmed",
    },
)
