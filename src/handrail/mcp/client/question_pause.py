"""Pauses the time of a call while a person is asked in mid-call, and withdraws the question when the call is given up.

A question belongs to a call if it came as part of its answer: in the stateless era, and over HTTP on the stream of
the call. Over pipes, and on a stream of its own, the wire does not say to which. Then it may be for any that is under
way at its server: all of them wait, it is withdrawn when all were given up, and whoever is asked is told of all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from handrail.core.errors import Denied
from handrail.core.invocation import Invocation
from handrail.core.model_request import ModelRequest
from handrail.core.timeouts import time_limit
from handrail.mcp.client.server_questions import (
    ClientRelay,
    ElicitationReply,
    Kind,
    SamplingReply,
    ServerQuestionHandler,
)

_GIVEN_UP = "the call was given up, and the question with it"


_CALL: ContextVar[tuple[RemoteCallsInProgress, Invocation] | None] = ContextVar("handrail_mcp_call", default=None)
"""The current call. The official package runs a callback in the context of the request that it belongs to."""


class RemoteCallsInProgress:
    """The calls that a server is at work on."""

    def __init__(self) -> None:
        self._calls: set[Invocation] = set()
        self._questions: dict[asyncio.Timeout, set[Invocation]] = {}
        """Those without an answer, each with the calls that it may belong to."""

    @contextmanager
    def calling(self, invocation: Invocation) -> Iterator[None]:
        self._calls.add(invocation)
        token = _CALL.set((self, invocation))
        try:
            yield
        except BaseException:
            self._give_up(invocation)
            raise
        finally:
            _CALL.reset(token)
            self._calls.discard(invocation)

    def _give_up(self, invocation: Invocation) -> None:
        for question, calls in self._questions.items():
            if calls == {invocation}:
                question.reschedule(0)
            calls.discard(invocation)

    def meant(self) -> set[Invocation]:
        """The calls that a message which comes now may belong to.

        Raises:
            Denied: It belongs to one that was given up.
        """
        match _CALL.get():
            case (under_way, call) if under_way is self:
                if call not in self._calls:
                    raise Denied(_GIVEN_UP)
                return {call}
        return set(self._calls)

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[tuple[str, ...]]:
        """Gives the runs that the question may be for.

        Raises:
            Denied: Nobody waits for the answer any more.
        """
        calls = self.meant()
        try:
            async with time_limit(None) as question:
                self._questions[question] = calls
                with ExitStack() as stack:
                    for invocation in calls:
                        stack.enter_context(invocation.waiting())
                    yield tuple(sorted({invocation.context.run for invocation in calls}))
        except TimeoutError:
            if not question.expired():
                raise
            raise Denied(_GIVEN_UP) from None
        finally:
            self._questions.pop(question, None)


class PausingQuestionHandler:
    """An `ServerQuestionHandler` that stops the time of the calls under way as long as it has no answer."""

    def __init__(
        self, asking: ServerQuestionHandler, calls: RemoteCallsInProgress, relay: ClientRelay | None = None
    ) -> None:
        self._asking = asking
        self._calls = calls
        self.relay = relay

    @property
    def answers(self) -> frozenset[Kind]:
        own = self._asking.answers
        return own if self.relay is None else self.passed | (own & {"sampling"})

    @property
    def passed(self) -> frozenset[Kind]:
        """What the client is asked that the server works for. A model that we lend stands in for the client's."""
        if self.relay is None:
            return frozenset()
        return self.relay.answers - (self._asking.answers & {"sampling"})

    @property
    def roots(self) -> tuple[Path, ...]:
        return self._asking.roots

    async def elicit(
        self, server: str, message: str, form: dict[str, Any] | None, url: str | None, meant: tuple[str, ...] = ()
    ) -> ElicitationReply:
        async with self._calls.waiting() as runs:
            return await self._asking.elicit(server, message, form, url, meant or runs)

    async def sample(self, server: str, request: ModelRequest, meant: tuple[str, ...] = ()) -> SamplingReply:
        async with self._calls.waiting() as runs:
            return await self._asking.sample(server, request, meant or runs)

    async def passed_on(self, server: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """What the client says that the server works for."""
        assert self.relay is not None
        calls = self._calls.meant()
        async with self._calls.waiting():
            return await self.relay.ask(server, method, params, calls)
