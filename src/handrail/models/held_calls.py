"""Calls whose arguments did not come in pieces: whole where the call began, or not at all.

Only what follows tells whether that is what the model meant. If another block begins,
it is; if the reply ends at its token limit, nobody knows what was still to be written.
"""

from __future__ import annotations

from collections.abc import Iterator

from handrail.core.events import ModelEvent, Notice
from handrail.models.call_assembly import CallAssembler


class HeldCalls:
    """Beside the assembler of one reply. Say `settle` when a block begins, and at the end of the reply."""

    def __init__(self, calls: CallAssembler) -> None:
        self._calls = calls
        self._held: list[tuple[int, str]] = []

    def hold(self, index: int, name: object) -> None:
        self._held.append((index, str(name)))

    def settle(self, *, cut: bool) -> Iterator[ModelEvent]:
        """Give the calls out, or say that they are dropped."""
        for index, name in self._held:
            if cut:
                yield Notice(text=f"the reply reached its token limit inside a call to {name!r}; the call was dropped")
            else:
                yield from self._calls.complete(index)
        self._held.clear()
