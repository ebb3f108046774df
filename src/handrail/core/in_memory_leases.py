"""Who works on which run, for journals that only this process has."""

from __future__ import annotations

import os

from handrail.core.errors import LeaseHeld


class InMemoryLeases:
    """The leases on the runs of one journal."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[str, InMemoryLease] = {}

    def take(self, run: str) -> InMemoryLease:
        """
        Raises:
            LeaseHeld: Somebody has it.
        """
        if run in self._held:
            raise LeaseHeld(run, f"this process ({os.getpid()})")
        lease = self._held[run] = InMemoryLease(self._held, run)
        return lease


class InMemoryLease:
    """A run that one caller works on, until it is released."""

    __slots__ = ("_held", "_run")

    def __init__(self, held: dict[str, InMemoryLease], run: str) -> None:
        self._held = held
        self._run = run

    def release(self) -> None:
        if self._held.get(self._run) is self:
            del self._held[self._run]
