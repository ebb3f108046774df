"""What a caller can be certain of about its call, and so what it may report when it gets no answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from handrail.core.errors import BusError, Outcome
from handrail.node.nats.messages import NatsAccepted

State = Literal["idle", "asked", "word", "running", "ended"]
"""`word`: our word to begin is sent, once, and nothing was heard since."""


@dataclass(slots=True, eq=False, kw_only=True)
class CallCertainty:
    """What the caller knows for certain about its call, and the error it may therefore report."""

    what: str
    effect_possible: bool
    """An earlier attempt may have taken effect."""
    at_once: Callable[[], bool]
    """Whether something with an effect may be begun by a worker of which nothing was heard."""
    state: State = "idle"
    taken: NatsAccepted | None = None
    """The worker that has the call, and how it treats it."""
    seq: int = 0
    """The last chunk that was given out."""

    @property
    def again(self) -> bool:
        """Whether it may be made again, and nobody would see it begin a second time."""
        return self.taken is not None and self.taken.retriable and self.seq == 0

    @property
    def effects(self) -> bool:
        return self.taken is not None and self.taken.side_effects

    @property
    def in_doubt(self) -> bool:
        begun = self.at_once() if self.state == "asked" else self.state in ("word", "running") and self.effects
        return begun or self.effect_possible

    def lost(self) -> None:
        """This attempt is given up, whatever it did."""
        self.effect_possible |= self.at_once() if self.state == "asked" else self.effects

    def truly(self, error: BusError) -> BusError:
        """The end of this attempt as an end of the call: an earlier attempt may have taken effect."""
        return BusError.from_dict({**error.to_dict(), "outcome": "in_doubt"}) if self.effect_possible else error

    def partition(self, why: str) -> BusError:
        return BusError("partition", why, outcome="in_doubt" if self.in_doubt else "failed")

    def late(self) -> BusError:
        outcome: Outcome = "in_doubt" if self.in_doubt else "timeout"
        return BusError("timeout", f"{self.what} did not answer in time", outcome=outcome)

    def cancelled(self) -> BusError:
        outcome: Outcome = "in_doubt" if self.in_doubt else "cancelled"
        return BusError("cancelled", "the call was cancelled", outcome=outcome)
