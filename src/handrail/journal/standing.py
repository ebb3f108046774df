"""Whether anything in a run is still open, so that it must not be erased: somebody waits for it or may need it."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from handrail.core.errors import JournalError

Standing = Literal["waits", "in_doubt", "under_way", "settled"]
"""`waits`: a person has to answer, or has answered and whoever asked has not come back. `in_doubt`: an effect was begun
of which nobody knows the end. `under_way`: a call has no answer on record. `settled`: nothing of that."""


class _Said(Struct, frozen=True, gc=False):
    outcome: str = ""
    why: str = ""
    side_effects: bool = False


_said = msgspec.json.Decoder(_Said)


class RunStanding:
    """Looks at the entries of a run in order, without their bodies."""

    __slots__ = ("_asked", "_doubtful", "_open")

    def __init__(self) -> None:
        self._asked: set[str | None] = set()
        self._open: dict[str | None, bool] = {}
        """Calls that were begun, and whether they have side effects."""
        self._doubtful: set[str | None] = set()

    def feed(self, kind: str, call: str | None, leaf: bytes) -> None:
        match kind:
            case "confirmation.requested":
                self._asked.add(call)
            case "call.intended":
                self._asked.discard(call)
                self._doubtful.discard(call)
                self._open[call] = _read(leaf).side_effects
            case "call.settled":
                self._asked.discard(call)
                self._open.pop(call, None)
                self._note(call, _read(leaf).outcome)
            case "call.amended":
                said = _read(leaf)
                if said.why == "person":  # what came late stands beside the answer
                    self._asked.discard(call)
                    self._open.pop(call, None)
                    self._note(call, said.outcome)

    def _note(self, call: str | None, outcome: str) -> None:
        if outcome == "in_doubt":
            self._doubtful.add(call)
        else:
            self._doubtful.discard(call)

    @property
    def value(self) -> Standing:
        if self._asked:
            return "waits"
        if self._doubtful or any(self._open.values()):
            return "in_doubt"
        return "under_way" if self._open else "settled"


def _read(leaf: bytes) -> _Said:
    try:
        return _said.decode(leaf)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError) as error:
        raise JournalError(f"an entry cannot be read ({error}); run: handrail proof verify") from error
