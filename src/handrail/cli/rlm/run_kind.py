"""Telling a run of `handrail rlm` from one of `handrail ask`: each is taken up by its own command."""

from __future__ import annotations

from collections.abc import Iterable

from handrail.core.events import CallIntended, Recorded
from handrail.core.ids import nested_id
from handrail.rlm.repl.turns import REPL


def is_rlm_run(run: str, events: Iterable[Recorded]) -> bool:
    """Whether a run began with making a REPL ready."""
    first = nested_id(run, "setup-0")
    return any(isinstance(event, CallIntended) and (event.tool, event.call_id) == (REPL, first) for event in events)
