"""What a caller surely knows of its call, and so what it may say when it gets no answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from handrail.core.errors import BusError, Outcome
from handrail.node.nats.messages import NatsAccepted

State = Literal["idle", "asked", "word", "running", "ended"]
"""`word`: our word to begin is sent, once, and nothing was heard since."""


class CallCertainty:
    __slots__ = ("_at_once", "effect_possible", "seq", "state", "taken", "what")

    def __init__(self, what: str, *, effect_possible: bool, at_once: Callable[[], bool]) -> None:
        """`at_once` tells whether something with an effect may be begun by a worker of which nothing was heard."""
        self.what = what
        self._at_once = at_once
        self.state: State = "idle"
        self.taken: NatsAccepted | None = None
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
        begun = self._at_once() if self.state == "asked" else self.state in ("word", "running") and self.effects
        return begun or self.effect_possible

    def lost(self) -> None:
        """This attempt is given up, whatever it did."""
        self.effect_possible |= self._at_once() if self.state == "asked" else self.effects

    def truly(self, error: BusError) -> BusError:
        """How this attempt ended, as an end of the call: an earlier one may have taken effect."""
        return BusError.from_dict({**error.to_dict(), "outcome": "in_doubt"}) if self.effect_possible else error

    def partition(self, why: str) -> BusError:
        return BusError("partition", why, outcome="in_doubt" if self.in_doubt else "failed")

    def late(self) -> BusError:
        outcome: Outcome = "in_doubt" if self.in_doubt else "timeout"
        return BusError("timeout", f"{self.what} did not answer in time", outcome=outcome)

    def cancelled(self) -> BusError:
        outcome: Outcome = "in_doubt" if self.in_doubt else "cancelled"
        return BusError("cancelled", "the call was cancelled", outcome=outcome)
