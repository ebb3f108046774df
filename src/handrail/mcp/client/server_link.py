"""One connection from its beginning to its end. It is never repaired: another one takes its place.

It lives in a task of its own, because the SDK cancels whoever opened a client when
the connection breaks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from mcp import Client
from mcp.client.extension import ClientExtension, advertise
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    EmptyResult,
    Implementation,
    PingRequest,
    ServerCapabilities,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from handrail.core.errors import McpError
from handrail.core.ports import Clock
from handrail.core.version import VERSION
from handrail.mcp.client.callbacks import callbacks
from handrail.mcp.client.failures import TransportFault, clean_server_text, failure_reason
from handrail.mcp.client.head_start import StartedServer
from handrail.mcp.client.http_transport import open_http_transport
from handrail.mcp.client.inbox import McpInbox, OnMessage
from handrail.mcp.client.oauth import oauth_for
from handrail.mcp.client.stdio_transport import StdioTransport
from handrail.mcp.client.tasks import TaskPollingPace, TasksClientExtension
from handrail.mcp.client.tool_listing import MOST_WORDS
from handrail.mcp.sdk_internals import Transport, leave_results_to_us
from handrail.mcp.values import Endpoint, HttpEndpoint, McpLinkTerms, ServerFacts, StdioEndpoint

logger = logging.getLogger(__name__)

_MODES = {"auto": "auto", "legacy": "legacy", "modern": "auto"}
_REFUSALS = (METHOD_NOT_FOUND, INVALID_PARAMS, INVALID_REQUEST)
_LISTENING_AGAIN = 1.0
_LONGEST_PAUSE = 60.0
_KEPT_WAITING = 1.0
"""Seconds of silence after which a program is nudged."""


class ServerLink:
    """`ready` is done when it can be used, or has the reason why it never will."""

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        terms: McpLinkTerms,
        clock: Clock,
        on_notice: Callable[[str], None],
        on_message: OnMessage | None = None,
        *,
        shakes_hands: bool = False,
        started: StartedServer | None = None,
    ) -> None:
        self.name = name
        self._shakes_hands = shakes_hands
        self._started = started
        self.knows_no_handshake: bool = False
        """Whether it was refused because only the newer era is spoken there."""
        self._endpoint = endpoint
        self._terms = terms
        self._bounds = terms.bounds
        self._options: dict[str, Any] = {} if terms.asking is None else callbacks(terms.asking, name)
        self._clock = clock
        self._on_notice = on_notice
        self._watched: tuple[str, ...] = ()
        self._listening: asyncio.Task[None] | None = None
        self._nudging: asyncio.Task[None] | None = None
        self._pipes: StdioTransport | None = None
        self.inbox: McpInbox = McpInbox(on_notice, on_message)
        self.client: Client | None = None
        self.facts: ServerFacts | None = None
        self.users: int = 0
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.over = asyncio.Event()
        """Nothing new is asked over it."""
        self.why: str = ""
        self._idle = asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(self._live(), name=f"handrail-mcp-{name}")

    @property
    def said(self) -> str:
        """What a program said on its standard error."""
        return "" if self._pipes is None else self._pipes.errors

    @property
    def alone(self) -> bool:
        """Whether no other may begin before this one has ended: two programs may want the same file."""
        return isinstance(self._endpoint, StdioEndpoint)

    def retire(self, why: str) -> None:
        """Let it end when those who use it have their answers."""
        if not self.over.is_set():
            self.why = why
            self.over.set()
        if not self.users:
            self._idle.set()

    def leave(self) -> None:
        """Notes that one of its users has an answer."""
        self.users -= 1
        if not self.users and self.over.is_set():
            self._idle.set()

    async def stop(self, why: str, patience: float) -> None:
        """End it now, whoever waits."""
        self.retire(why)
        self._idle.set()
        if not self.ready.done():
            self.task.cancel()
        await asyncio.wait({self.task}, timeout=patience)
        if not self.task.done():
            self.task.cancel()
            await asyncio.wait({self.task}, timeout=patience)

    async def _live(self) -> None:
        why = ""
        try:
            async with self._client() as client:
                self._greet(client)
                self.ready.set_result(None)
                await self._last(client)
        except asyncio.CancelledError:
            why = "it was closed"
            raise
        except BaseException as error:
            why = failure_reason(error)
            if self._pipes is not None and why == "Connection closed":
                why = self._pipes.ending  # which says more
            if not self.ready.done():
                self.knows_no_handshake = self._shakes_hands and isinstance(unwrapped(error), MCPError)
                self.ready.set_exception(_reason(self.name, error, why))
            if not isinstance(error, Exception | BaseExceptionGroup):  # the whole program is to end
                raise
        finally:
            if not self.ready.done():
                self.ready.set_exception(McpError(self.name, why or "it was closed"))
            if not self.ready.cancelled():
                self.ready.exception()  # taken: nobody has to ask
            self.why = self.why or self._ending(why)
            self.over.set()

    def _client(self) -> Client:
        return Client(
            self._transport(),
            mode="legacy" if self._shakes_hands else _MODES[self._terms.era],
            client_info=Implementation(name="handrail", version=VERSION),
            input_required_max_rounds=self._bounds.rounds,
            extensions=[TasksClientExtension(TaskPollingPace(rounds=self._bounds.rounds)), *self._passed_extensions()],
            # What is listed is kept by whoever listed it, until a notice or a new connection.
            cache=None,
            **self._options,
        )

    def _passed_extensions(self) -> list[ClientExtension]:
        """What the clients declare that the server works for. Tasks are ours: a task is followed here."""
        relay = self._terms.relay
        declared = {} if relay is None else relay.extensions
        return [
            advertise(name, settings) for name, settings in declared.items() if name != TasksClientExtension.identifier
        ]

    def _transport(self) -> Transport:
        match self._endpoint:
            case StdioEndpoint() as program:
                self._pipes = StdioTransport(
                    program, self._bounds, self.inbox, on_end=self._hung_up, started=self._started
                )
                return self._pipes
            case HttpEndpoint() as address:
                auth = None
                if address.oauth is not None:
                    if self._terms.sign_in is None:
                        raise McpError(self.name, "its `oauth` needs a place to keep tokens; give `sign_in`")
                    auth = oauth_for(address, self._terms.sign_in)
                return open_http_transport(address, self._bounds, self.inbox, auth=auth, on_gone=self.retire)

    def _hung_up(self) -> None:
        self.retire("")

    def _ending(self, why: str) -> str:
        if self._pipes is not None and not why:
            return self._pipes.ending
        return why or "the connection ended"

    def _greet(self, client: Client) -> None:
        self.facts = _facts(client)
        self.inbox.modern = self.facts.protocol in MODERN_PROTOCOL_VERSIONS
        if self._terms.era == "modern" and not self.inbox.modern:
            raise McpError(self.name, f"it speaks {self.facts.protocol}, and only 2026-07-28 or later was asked for")
        leave_results_to_us(client)
        self.client = client

    # ── while it lasts ───────────────────────────────────────────────────────────────

    async def _last(self, client: Client) -> None:
        self._listen_again(client)
        if self._pipes is not None:
            self._nudging = asyncio.get_running_loop().create_task(self._nudge(client, self._pipes))
        try:
            await self.over.wait()
            await self._idle.wait()
        finally:
            beside = {task for task in (self._listening, self._nudging) if task is not None}
            for task in beside:
                task.cancel()
            if beside:
                await asyncio.wait(beside)

    async def _nudge(self, client: Client, pipes: StdioTransport) -> None:
        """A program on the SDK whose loop has crashed hangs until it is spoken to, and only then ends.

        So whoever is kept waiting is asked now and then for something that costs it nothing.
        """
        while True:
            spoken, waiting = pipes.spoken, self.users
            await asyncio.sleep(_KEPT_WAITING)
            if waiting and self.users and pipes.spoken == spoken:
                try:
                    await _ask_for_little(client)
                except Exception as error:
                    logger.debug("MCP server %r was nudged: %s", self.name, failure_reason(error))

    def watch(self, uris: tuple[str, ...]) -> None:
        """Hear of changes of these resources too. Up to 2025-11-25 each is asked for by a request instead."""
        self._watched = uris
        if self.client is not None and self.inbox.modern:
            self._listen_again(self.client)

    def _listen_again(self, client: Client) -> None:
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None
        wanted = _announced(client.server_capabilities)
        if self.inbox.modern and (wanted or self._watched):
            self._listening = asyncio.get_running_loop().create_task(self._listen(client, wanted))

    async def _listen(self, client: Client, wanted: tuple[str, ...]) -> None:
        """Keep a stream of notices open. What it says is seen by the inbox already."""
        pause, heard = _LISTENING_AGAIN, False
        while True:
            began = self._clock.monotonic()
            try:
                filters: dict[str, Any] = {f"{kind}_list_changed": True for kind in wanted}
                async with client.listen(**filters, resource_subscriptions=self._watched) as stream:
                    if heard:  # what changed while nobody listened is not told again
                        for kind in wanted:
                            self._on_notice(kind)
                    heard = True
                    async for _ in stream:
                        pass
            except Exception as error:
                if (
                    isinstance(error, MCPError)
                    and error.code in _REFUSALS
                    and not isinstance(error.data, TransportFault)
                ):
                    logger.debug(
                        "MCP server %r does not tell of changes: %s", self.name, clean_server_text(error.message)
                    )
                    return
                logger.debug("MCP server %r stopped telling of changes: %s", self.name, failure_reason(error))
                if (
                    isinstance(error, MCPError)
                    and isinstance(error.data, TransportFault)
                    and error.data.kind != "unusable"
                ):
                    self.retire(error.data.why)
            if self._clock.monotonic() - began >= _LONGEST_PAUSE:  # many servers end a stream now and then
                pause = _LISTENING_AGAIN
            await self._clock.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)


async def _ask_for_little(client: Client) -> None:
    if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
        await client.session.send_discover(client.protocol_version)
    else:
        await client.session.send_request(PingRequest(), EmptyResult)


def unwrapped(error: BaseException) -> BaseException:
    """The one error that a group holds."""
    match error:
        case BaseExceptionGroup(exceptions=(one,)):
            return unwrapped(one)
    return error


def _reason(name: str, error: BaseException, why: str) -> McpError:
    match error:
        case McpError():
            return error
        case MCPError(data=TransportFault(error=McpError() as known)):
            return known
        case BaseExceptionGroup(exceptions=(one,)):
            return _reason(name, one, why)
    return McpError(name, why)


def _facts(client: Client) -> ServerFacts:
    info = client.server_info
    return ServerFacts(
        name="" if info is None else clean_server_text(info.name),
        version="" if info is None else clean_server_text(info.version),
        protocol=client.protocol_version,
        instructions=(client.instructions or "")[:MOST_WORDS],
        capabilities=_capabilities(client.server_capabilities),
        declared=client.server_capabilities.model_dump(by_alias=True, mode="json", exclude_unset=True),
    )


def _capabilities(given: ServerCapabilities) -> frozenset[str]:
    names = ("tools", "resources", "prompts", "completions", "logging")
    found = {name for name in names if getattr(given, name) is not None}
    if "io.modelcontextprotocol/tasks" in (given.extensions or {}):
        found.add("tasks")
    return frozenset(found)


def _announced(given: ServerCapabilities) -> tuple[str, ...]:
    """The lists whose changes the server tells of."""
    kinds = ("tools", "resources", "prompts")
    return tuple(kind for kind in kinds if getattr(getattr(given, kind), "list_changed", None))
