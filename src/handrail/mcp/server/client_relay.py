"""Relays what servers behind us ask and announce to the right client.

A question or a message belongs to the call that the server works on, to the request that is passed on to it, or to
nobody in particular. With several clients at work with one server, and no sign for whom it asks, nobody is asked.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Protocol

from handrail.core.confirmation import Confirmation, Decision
from handrail.core.errors import ToolError
from handrail.core.invocation import Invocation
from handrail.core.timeouts import time_limit
from handrail.mcp.client.server_questions import ApproverQuestionHandler, ClientRefused, Kind
from handrail.mcp.server.client_approver import ClientApprover
from handrail.mcp.server.client_questions import KEY, ClientAsk
from handrail.mcp.server.definition import FirstWords

_KINDS: tuple[Kind, ...] = ("elicitation", "sampling", "roots")
_NOT_FOUND = -32601
_PATIENCE = 10.0
"""Seconds that a client may take to accept a message. One that does not read must not hold up the others."""

logger = logging.getLogger(__name__)
Send = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


class RelayWire(Protocol):
    """The clients that are connected, and the requests of theirs that a server works on."""

    def connected(self) -> tuple[Any, ...]:
        """Clients that shook hands: only to them something can be said by itself."""
        ...

    async def ask_in(self, request: Any, method: str, params: dict[str, Any]) -> dict[str, Any]: ...

    async def tell_in(self, request: Any, method: str, params: dict[str, Any]) -> None: ...

    async def ask(self, client: Any, method: str, params: dict[str, Any]) -> dict[str, Any]: ...

    async def tell(self, client: Any, method: str, params: dict[str, Any]) -> None: ...


class _NobodyThere:
    """Before we serve."""

    def connected(self) -> tuple[Any, ...]:
        return ()

    async def ask_in(self, request: Any, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise ClientRefused(_NOT_FOUND, "no client is connected")

    async def tell_in(self, request: Any, method: str, params: dict[str, Any]) -> None:
        """Drops what nobody would hear."""

    ask = ask_in
    tell = tell_in


class McpClientRelay:
    """See `ClientRelay`. `questions` sees to it that rules are heeded and what was asked is on record."""

    def __init__(self, asker: ClientApprover, client: FirstWords | None = None) -> None:
        """`client` is the one that there is; None: nobody knows yet who will come."""
        self.shakes_hands: bool = client is not None and client.shakes_hands
        capabilities = None if client is None else client.capabilities
        declared: Mapping[str, Any] = {kind: {} for kind in _KINDS} if capabilities is None else capabilities
        self.answers: frozenset[Kind] = frozenset(kind for kind in _KINDS if declared.get(kind) is not None)
        found = declared.get("extensions")
        self.extensions: Mapping[str, dict[str, Any]] = found if isinstance(found, dict) else {}
        self.questions: ApproverQuestionHandler | None = None
        self._asker = asker
        self._wire: RelayWire = _NobodyThere()
        self._passing: dict[object, tuple[str, Any]] = {}
        self._waiting: deque[Callable[[], Awaitable[None]]] = deque()
        self._telling: asyncio.Task[None] | None = None

    def attach(self, wire: RelayWire) -> None:
        """Notes that there may be clients from now on."""
        self._wire = wire

    @contextmanager
    def passing(self, server: str, request: Any) -> Iterator[None]:
        """While this lasts, the server works on a request of this client."""
        key = object()
        self._passing[key] = server, request
        try:
            yield
        finally:
            del self._passing[key]

    # ── questions ────────────────────────────────────────────────────────────────────

    async def ask(
        self, server: str, method: str, params: dict[str, Any], calls: Collection[Invocation]
    ) -> dict[str, Any]:
        send = self._way(server, calls)
        if self.questions is None or method == "roots/list":
            return await send(method, params)
        meant = tuple(sorted({call.context.run for call in calls}))
        return await self.questions.passed_on(
            server, method, params, meant, lambda: send(method, params), self._deciding
        )

    def _deciding(self, decide: Callable[[Confirmation], Awaitable[Decision]]) -> AbstractContextManager[None]:
        return self._asker.during(_Answering(decide))

    def _way(self, server: str, calls: Collection[Invocation]) -> Send:
        clients = _clients_of(calls)
        requests = [request for name, request in self._passing.values() if name == server]
        if len(clients) + (0 if clients else len(requests)) > 1:
            raise ToolError("ambiguous", f"{server!r} works for several clients and does not say for which it asks")
        if clients:
            return clients[0].pass_on
        if requests:
            return partial(self._wire.ask_in, requests[0])
        there = self._wire.connected()
        if len(there) != 1:
            raise ClientRefused(_NOT_FOUND, f"{len(there)} clients are connected, and one alone could be asked")
        return partial(self._wire.ask, there[0])

    # ── messages ─────────────────────────────────────────────────────────────────────

    def tell(self, server: str, method: str, params: dict[str, Any], calls: Collection[Invocation]) -> None:
        self._waiting.extend(self._ways_to_tell(server, method, params, calls))
        if self._waiting and (self._telling is None or self._telling.done()):
            self._telling = asyncio.get_running_loop().create_task(self._tell(), name="handrail-mcp-relay")

    async def flush(self) -> None:
        """Return when everything is sent that was to be told until now."""
        if self._telling is not None and not self._telling.done():
            await asyncio.wait({self._telling})

    async def aclose(self) -> None:
        if self._telling is not None and not self._telling.done():
            self._telling.cancel()
            await asyncio.wait({self._telling})

    async def _tell(self) -> None:
        while self._waiting:
            try:
                async with time_limit(_PATIENCE):
                    await self._waiting.popleft()()
            except Exception:  # one broken connection must not keep the news from the others
                logger.debug("a client could not be told what a server said", exc_info=True)

    def _ways_to_tell(
        self, server: str, method: str, params: dict[str, Any], calls: Collection[Invocation]
    ) -> list[Callable[[], Awaitable[None]]]:
        if clients := _clients_of(calls):
            return [partial(each.behind.notify, method, params) for each in clients if each.behind is not None]
        requests = [request for name, request in self._passing.values() if name == server]
        if requests:
            return [partial(self._wire.tell_in, each, method, params) for each in requests]
        return [partial(self._wire.tell, each, method, params) for each in self._wire.connected()]


class _Answering:
    """Decides by what a question that was passed on is answered with."""

    def __init__(self, decide: Callable[[Confirmation], Awaitable[Decision]]) -> None:
        self._decide = decide

    async def decide(self, question: Confirmation) -> Decision:
        return await self._decide(question)


def _clients_of(calls: Collection[Invocation]) -> list[ClientAsk]:
    """The clients that these calls came from, each once."""
    found: dict[object, ClientAsk] = {}
    for call in calls:
        client = call.auxdata.get(KEY)
        if isinstance(client, ClientAsk) and client.behind is not None:
            found.setdefault(client.behind.who, client)
    return list(found.values())
