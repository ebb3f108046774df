"""While a person is asked in mid-call, the call's own time does not run.

Which call a question belongs to is not on the wire, so all that are under way at its server wait for the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from handrail.core.invocation import Invocation
from handrail.core.model import ModelRequest
from handrail.mcp.client.asking import Asking, Elicited, Kind, Sampled


class UnderWay:
    """The calls that a server is at work on."""

    def __init__(self) -> None:
        self._calls: set[Invocation] = set()

    @contextmanager
    def calling(self, invocation: Invocation) -> Iterator[None]:
        self._calls.add(invocation)
        try:
            yield
        finally:
            self._calls.discard(invocation)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        with ExitStack() as stack:
            for invocation in self._calls:
                stack.enter_context(invocation.waiting())
            yield


class Patient:
    """An `Asking` that stops the time of the calls under way as long as it has no answer."""

    def __init__(self, asking: Asking, calls: UnderWay) -> None:
        self._asking = asking
        self._calls = calls

    @property
    def answers(self) -> frozenset[Kind]:
        return self._asking.answers

    @property
    def roots(self) -> tuple[Path, ...]:
        return self._asking.roots

    async def elicit(self, server: str, message: str, form: dict[str, Any] | None, url: str | None) -> Elicited:
        with self._calls.waiting():
            return await self._asking.elicit(server, message, form, url)

    async def sample(self, server: str, request: ModelRequest) -> Sampled:
        with self._calls.waiting():
            return await self._asking.sample(server, request)

    def callbacks(self, server: str) -> dict[str, Any]:
        from handrail.mcp.client.callbacks import callbacks  # it needs the official package

        return callbacks(self, server)
