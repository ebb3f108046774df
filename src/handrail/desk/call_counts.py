"""How many calls the conversations of a desk have made: they go to the executor, and over no bus that counts them."""

from __future__ import annotations

from dataclasses import dataclass, field

from handrail.core.events import CallIntended, CallSettled, Event


@dataclass(slots=True)
class CallCounts:
    answered: int = 0
    failed: int = 0
    _running: set[tuple[str, str]] = field(default_factory=set)

    @property
    def under_way(self) -> int:
        return len(self._running)

    def take(self, event: Event) -> None:
        match event:
            case CallIntended(run=run, call_id=call):
                self._running.add((run, call))
            case CallSettled(run=run, call_id=call, outcome=outcome):
                self._running.discard((run, call))
                self.answered += outcome == "ok"
                self.failed += outcome != "ok"

    def ended(self, run: str) -> None:
        """The turn is over: nothing of it is under way, whatever was told of it."""
        self._running = {each for each in self._running if each[0] != run}
