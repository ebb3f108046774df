"""The table `[retention]` of a file: for how many days, or up to how many megabytes, a node keeps data.

conversations_days, outputs_days, blobs_days, events_days    that old, by when they were last changed
bodies_days                                                  arguments, results and words in the record
outputs_mb, blobs_mb                                         together, the oldest go first

What is not named here is kept for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from handrail.config.setting_kinds import Kinds, count


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """The limits of `[retention]`. None keeps everything."""

    conversations_days: int | None = None
    outputs_days: int | None = None
    outputs_mb: int | None = None
    blobs_days: int | None = None
    blobs_mb: int | None = None
    events_days: int | None = None
    bodies_days: int | None = None

    @property
    def stated(self) -> dict[str, int]:
        """What is said."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in found.items() if value is not None}


RETENTION: Kinds = {each.name: count(1) for each in fields(RetentionSettings)}
