"""What a caller surely knows of its call, and so what it may say when it gets no answer."""

from __future__ import annotations

from typing import Literal

from handrail.bus.nats.wire import Accepted
from handrail.core.errors import BusError, Outcome

State = Literal["idle", "asked", "word", "running", "ended"]
"""`word`: our word to begin is sent, once, and nothing was heard since."""


class Standing:
    __slots__ = ("effect_possible", "seq", "state", "taken", "what")

    def __init__(self, what: str, *, effect_possible: bool) -> None:
        self.what = what
        self.state: State = "idle"
        self.taken: Accepted | None = None
        """Who has it, and how they treat it."""
        self.seq = 0
        """The last chunk that was given out."""
        self.effect_possible = effect_possible
        """An earlier attempt may have taken effect."""

    @property
    def again(self) -> bool:
        """Whether it may be made again, and nobody would see it begin a second time."""
        return self.taken is not None and self.taken.retriable and self.seq == 0

    @property
    def effects(self) -> bool:
        return self.taken is not None and self.taken.side_effects

    @property
    def in_doubt(self) -> bool:
        begun = self.state in ("word", "running") and self.effects
        return begun or self.effect_possible

    def lost(self) -> None:
        """This attempt is given up, whatever it did."""
        self.effect_possible |= self.effects

    def partition(self, why: str) -> BusError:
        return BusError("partition", why, outcome="in_doubt" if self.in_doubt else "failed")

    def late(self) -> BusError:
        outcome: Outcome = "in_doubt" if self.in_doubt else "timeout"
        return BusError("timeout", f"{self.what} did not answer in time", outcome=outcome)

    def cancelled(self) -> BusError:
        outcome: Outcome = "in_doubt" if self.in_doubt else "cancelled"
        return BusError("cancelled", "the call was cancelled", outcome=outcome)
