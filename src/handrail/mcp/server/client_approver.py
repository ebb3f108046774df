"""The approver that asks the client of the call in flight.

It knows no wire: the server says for each call whom it can ask, and that travels with the task of the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from handrail.core.confirmation import Confirmation, Decision, Defer
from handrail.core.ports import Approver


class ClientDecider(Protocol):
    """The way to the person behind one call."""

    async def decide(self, question: Confirmation) -> Decision: ...


class ClientApprover:
    """Put it last, behind standing rules. Outside of a call from a client it defers, or asks `otherwise`."""

    def __init__(self, otherwise: Approver | None = None) -> None:
        self._otherwise = otherwise
        self._talk: ContextVar[ClientDecider | None] = ContextVar("handrail-mcp-talk", default=None)

    @contextmanager
    def during(self, talk: ClientDecider) -> Iterator[None]:
        """Questions that come up in here, and in tasks that are begun in here, go this way."""
        token = self._talk.set(talk)
        try:
            yield
        finally:
            self._talk.reset(token)

    async def decide(self, question: Confirmation) -> Decision:
        talk = self._talk.get()
        if talk is not None:
            return await talk.decide(question)
        return Defer() if self._otherwise is None else await self._otherwise.decide(question)
