"""Events and blocks of kinds that this version does not know: they never end a reply, and each kind is reported
once."""

from __future__ import annotations

from handrail.core.events import Notice
from handrail.models.service_errors import masked_excerpt

_MOST = 8
"""Kinds that are noticed in one reply; a service that sends more is not answered with more."""


class UnknownKinds:
    """Collects the unknown kinds of one reply and notices each once."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: list[str] = []

    def event(self, kind: object) -> tuple[Notice, ...]:
        """A whole event that is skipped."""
        return self._notice(f"an event {masked_excerpt(str(kind))!r}", "it is skipped")

    def block(self, kind: object) -> tuple[Notice, ...]:
        """A block of the reply that is kept, and sent back to the same service."""
        return self._notice(f"a block {masked_excerpt(str(kind))!r}", "it is kept for the service as it came")

    def piece(self, kind: object) -> tuple[Notice, ...]:
        """A piece of a block that is skipped."""
        return self._notice(f"a piece {masked_excerpt(str(kind))!r}", "it is skipped")

    @property
    def words(self) -> str:
        """The part of an error that says what was sent and could not be read; empty if nothing was."""
        return f"; it sent {' and '.join(self._seen)}, which this version does not know" if self._seen else ""

    def _notice(self, what: str, then: str) -> tuple[Notice, ...]:
        if what in self._seen or len(self._seen) >= _MOST:
            return ()
        self._seen.append(what)
        return (Notice(text=f"the service sent {what}, which this version does not know; {then}"),)
