"""While a person is asked in mid-call, the call's own time does not run; and who gave up the call is asked no more.

Which call a question belongs to is not on the wire, so all that are under way at its server wait for the answer, and
it is withdrawn when all of them were given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from handrail.core.errors import Denied
from handrail.core.invocation import Invocation
from handrail.core.model import ModelRequest
from handrail.mcp.client.asking import Asking, Elicited, Kind, Sampled


class UnderWay:
    """The calls that a server is at work on."""

    def __init__(self) -> None:
        self._calls: set[Invocation] = set()
        self._questions: dict[asyncio.Timeout, set[Invocation]] = {}
        """Those without an answer, each with the calls that it may belong to."""

    @contextmanager
    def calling(self, invocation: Invocation) -> Iterator[None]:
        self._calls.add(invocation)
        try:
            yield
        except BaseException:
            self._give_up(invocation)
            raise
        finally:
            self._calls.discard(invocation)

    def _give_up(self, invocation: Invocation) -> None:
        for question, calls in self._questions.items():
            if calls == {invocation}:
                question.reschedule(0)
            calls.discard(invocation)

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        """Raises:
        Denied: Nobody waits for the answer any more.
        """
        try:
            async with asyncio.timeout(None) as question:
                self._questions[question] = set(self._calls)
                with ExitStack() as stack:
                    for invocation in self._calls:
                        stack.enter_context(invocation.waiting())
                    yield
        except TimeoutError:
            if not question.expired():
                raise
            raise Denied("the call was given up, and the question with it") from None
        finally:
            self._questions.pop(question, None)


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
        async with self._calls.waiting():
            return await self._asking.elicit(server, message, form, url)

    async def sample(self, server: str, request: ModelRequest) -> Sampled:
        async with self._calls.waiting():
            return await self._asking.sample(server, request)

    def callbacks(self, server: str) -> dict[str, Any]:
        from handrail.mcp.client.callbacks import callbacks  # it needs the official package

        return callbacks(self, server)
