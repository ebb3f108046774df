"""The bus of a community over NATS: what any of its workers offers is called here as if it were in this process."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Self, Unpack

from handrail.core.closing import ClosedOnExit
from handrail.core.errors import BusError
from handrail.core.ids import NewId, new_id
from handrail.core.ports import Clock, SystemClock
from handrail.core.redact import Secret
from handrail.node.bus.interfaces import CallOptions, CapabilityOffer, StreamOptions
from handrail.node.bus.outgoing_rights import CallSigner, is_own, outgoing_terms
from handrail.node.bus.request import CallTerms
from handrail.node.bus.stream_frame import DONE, ERROR, StreamFrame
from handrail.node.bus.versions import VersionReq, version_of
from handrail.node.nats.call_exchange import CallExchange
from handrail.node.nats.link import NatsLink
from handrail.node.nats.messages import NatsChunk, NatsResult, NatsSubjects, NatsToolAnswer, NatsToolAnswerReceipt
from handrail.node.nats.nats_call import NatsCall
from handrail.node.nats.pace import NatsPace
from handrail.node.nats.worker_choice import BegunCalls, WorkerChoice
from handrail.node.nats.worker_directory import WorkerDirectory
from handrail.node.tokens.identity import Identity


class NatsBus(ClosedOnExit):
    """Calls the workers of a community. Close it, or use it with `async with`."""

    def __init__(
        self,
        connection: str | Sequence[str] | NatsLink,
        *,
        community: str,
        token: str | None = None,
        identity: Identity | None = None,
        pace: NatsPace = NatsPace(),
        window: int = 64,
        options: Mapping[str, Any] | None = None,
        clock: Clock = SystemClock(),
        chance: Callable[[], float] = random.random,
        new_id: NewId = new_id,
    ) -> None:
        """`connection` is the address of a NATS server, of several, or a `NatsLink` that somebody else closes.

        `token` and `identity` speak for this program; whoever it calls for brings their own. `options` are those of
        `nats.connect`: credentials, TLS, …
        """
        self._shared = isinstance(connection, NatsLink)
        self._link = (
            connection if isinstance(connection, NatsLink) else NatsLink(connection, pace=pace, options=options)
        )
        self._subjects = NatsSubjects(community)
        self._token = Secret(token) if token else None
        self._identity = identity
        self._signing = None if identity is None else CallSigner(identity, community, clock)
        self._window = window
        self._chance = chance
        self._new_id = new_id
        self._begun = BegunCalls(100_000)
        self._directory: WorkerDirectory | None = None

    @property
    def node_id(self) -> str:
        return "self" if self._identity is None else self._identity.node_id

    async def call(
        self, capability: str, version_req: VersionReq, body: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> dict[str, Any]:
        exchange = self._exchange(capability, version_req, body, options, stream=False)
        try:
            while not isinstance(message := await exchange.next(), NatsResult):
                pass  # a worker that was asked for one answer sends no chunks; another would be passed over
            return message.body
        finally:
            await exchange.close()

    def stream(
        self, capability: str, version_req: VersionReq, body: Mapping[str, Any], **options: Unpack[StreamOptions]
    ) -> NatsStream:
        def begin() -> CallExchange:
            return self._exchange(capability, version_req, body, options, stream=True)

        return NatsStream(begin, self._link, self._subjects)

    async def discover(self, name: str | None = None) -> Sequence[CapabilityOffer]:
        return await self._known().offers(name)

    async def aclose(self) -> None:
        if not self._shared:
            await self._link.aclose()

    async def __aenter__(self) -> Self:
        await self._link.open()
        return self

    def _exchange(
        self, capability: str, version_req: VersionReq, body: Mapping[str, Any], options: CallOptions, *, stream: bool
    ) -> CallExchange:
        terms = outgoing_terms(capability, CallTerms.of(options).from_now(), token=self._token, new_id=self._new_id)
        ask = NatsCall(
            capability=capability,
            version=version_of(version_req),
            body=dict(body),
            terms=terms,
            signing=self._signing if is_own(terms) else None,
            window=self._window,
            stream=stream,
        )
        finding = WorkerChoice(
            self._known(),
            self._subjects,
            ask.capability,
            ask.version,
            begun=self._begun,
            pinned=self._begun.get(ask.call_id),
            chance=self._chance,
        )
        return CallExchange(self._link, finding, ask)

    def _known(self) -> WorkerDirectory:
        if self._directory is None:
            self._directory = WorkerDirectory(self._link, self._subjects, asyncio.get_running_loop().time)
        return self._directory


class NatsStream:
    """The frames of one call. Errors are its last frame; leaving it early cancels the call."""

    def __init__(self, begin: Callable[[], CallExchange], link: NatsLink, subjects: NatsSubjects) -> None:
        self._begin = begin
        self._link = link
        self._subjects = subjects
        self._exchange: CallExchange | None = None
        self._cancelled = False
        self._ended = False

    def __aiter__(self) -> AsyncIterator[StreamFrame]:
        return self

    async def __anext__(self) -> StreamFrame:
        if self._ended:
            raise StopAsyncIteration
        try:
            if self._exchange is None:
                self._exchange = self._begin()
                if self._cancelled:
                    raise BusError("cancelled", "the call was cancelled", outcome="cancelled")
            message = await self._exchange.next()
        except BusError as error:
            self._ended = True
            seq = 0 if self._exchange is None else self._exchange.seq
            return StreamFrame(ERROR, error.to_dict(), seq + 1)
        if isinstance(message, NatsChunk):
            return StreamFrame(message.event, message.data, message.seq)
        self._ended = True
        return StreamFrame(DONE, message.body, message.seq)

    async def tool_result(self, tool_call_id: str, body: Any, *, is_error: bool = False) -> None:
        exchange = self._exchange
        if exchange is None or exchange.worker is None or self._ended:
            raise BusError("bad_request", "no call of a tool is waiting for an answer")
        said = NatsToolAnswer(ref=exchange.ref, tool_call_id=tool_call_id, body=body, is_error=is_error)
        answer = await self._link.ask(self._subjects.worker(exchange.worker), said, self._link.pace.lease)
        if not isinstance(answer, NatsToolAnswerReceipt):
            raise BusError("partition", "the worker did not say whether it took the answer")
        if answer.error is not None:
            raise BusError.from_dict(answer.error)

    async def cancel(self) -> None:
        self._cancelled = True
        if self._exchange is not None:
            self._exchange.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._ended = True
        if self._exchange is not None:
            await self._exchange.close()
