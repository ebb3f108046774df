"""What every run of a runner has in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from handrail.core.ids import NewId
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model
from handrail.execute.executor import Executor
from handrail.run.limits import Limits

OnError = Literal["surface", "fail_fast"]
OnWait = Literal["tell", "pause"]
"""When a call waits for a person: tell the model, or end here until the call has its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTerms:
    """Who is asked, who settles the calls, and how far they may go together."""

    model: Model
    executor: Executor
    limits: Limits
    on_error: OnError
    on_wait: OnWait
    defaults: ModelRequest
    """What every request has besides its messages and tools: temperature, limits of tokens, and so on."""
    valid: tuple[tuple[str, ...], ...]
    """Lists of patterns; each must cover a tool for this model to be offered it, or to call it; an
    empty one leaves none."""
    own_ids: bool
    """Whether every call gets an id from here, so that no two calls of any two runs have the same."""
    new_id: NewId
