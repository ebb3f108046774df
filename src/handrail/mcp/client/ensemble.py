"""An MCP server as a group of tools: connected when it is prepared, read again when it changes.

What it offers is what the server listed last and can be used. A set of tools that was
frozen before a change goes on with the tools that are as they were; one that changed
is refused from then on, until somebody takes the tools again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from handrail.core.errors import McpError, UsageError
from handrail.core.timeouts import time_limit
from handrail.core.usage_checks import check_keyword_names, keyword_names
from handrail.mcp.client.head_start import head_start
from handrail.mcp.client.question_pause import PausingQuestionHandler, RemoteCallsInProgress
from handrail.mcp.client.tool_listing import EMPTY, McpToolCatalogue, McpToolTerms, build_catalogue, read_tools
from handrail.mcp.client.user_servers import OwnCallsRelay, UserServers
from handrail.mcp.import_errors import import_failure
from handrail.mcp.values import (
    Endpoint,
    HttpEndpoint,
    McpBounds,
    McpLinkTerms,
    RemotePrompt,
    RemoteResource,
    RemoteTool,
    ResourceBody,
    StdioEndpoint,
)
from handrail.tools.definition import ToolDefinition
from handrail.tools.ensemble import Ensemble, ToolDefaults
from handrail.tools.tool import Tool

if TYPE_CHECKING:
    from mcp import Client

    from handrail.core.messages import Message
    from handrail.mcp.client.connection import McpConnection

T = TypeVar("T")
logger = logging.getLogger(__name__)


class McpEnsemble(Ensemble):
    """The tools of one MCP server.

    Where it is not `required`, a server that cannot be reached leaves the group empty;
    `problem` says why, and the tools come when the server does.
    """

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        *,
        terms: McpToolTerms = McpToolTerms(),
        link: McpLinkTerms = McpLinkTerms(),
        required: bool = False,
        enabled: bool = True,
        defaults: ToolDefaults = ToolDefaults(),
        on_change: Callable[[], None] | None = None,
        on_notice: Callable[[str], None] | None = None,
    ) -> None:
        """`mcp_ensemble` takes what stands in `terms` and `link` one by one."""
        super().__init__(name, enabled=enabled, defaults=defaults, on_prepare=self._open, on_close=self._shut)
        self.endpoint = endpoint
        self.required = required
        self.bounds: McpBounds = link.bounds
        self.problem: str = ""
        """Why the server cannot be used, or why its tools could not be read again."""
        self.on_change = on_change
        """Called in the loop when other tools are offered than before."""
        self.on_notice = on_notice
        """Called in the loop with `resources`, `prompts` or `resource:<uri>` when that has changed, and with `ready`
        when the server is there again."""
        self.under_way: RemoteCallsInProgress = RemoteCallsInProgress()
        self.asking: PausingQuestionHandler | None = (
            None if link.asking is None else PausingQuestionHandler(link.asking, self.under_way, link.relay)
        )
        self._given = link
        self._link = replace(link, asking=self.asking)
        self._user_servers: UserServers | None = None
        self._terms = terms
        self._connection: McpConnection | None = None
        self._catalogue = EMPTY
        self._listed_over: Client | None = None
        """The connection over which the catalogue was read, while nothing says that it is out of date."""
        self._doubts = 0
        self._reading = asyncio.Lock()
        self._stale = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    @property
    def connection(self) -> McpConnection:
        """The connection to the server.

        Raises:
            McpError: It is not prepared, or closed.
        """
        if self._connection is None:
            raise McpError(self.name, "it is not connected; prepare the ensemble first")
        return self._connection

    @property
    def held(self) -> Mapping[str, str]:
        """The tools that are held back, by the names that the server gives them, and why."""
        return dict(self._catalogue.held)

    @property
    def remote(self) -> Mapping[str, RemoteTool]:
        """The tools that are offered, as the server lists them."""
        return dict(self._catalogue.remote)

    def offered(self, name: str) -> Tool | None:
        """The tool that the server calls so, if it is offered."""
        return self._catalogue.tools.get(name)

    @asynccontextmanager
    async def for_caller(self, principal: str) -> AsyncIterator[McpEnsemble]:
        """The server as this principal goes to it: with their own credential, if its address says that users have one.

        Raises:
            Forbidden: They have none, and no other may be used for them.
            LimitReached: Too many others use theirs.
            McpError: There is no connection.
        """
        if not isinstance(self.endpoint, HttpEndpoint) or not self.endpoint.users:
            yield self
            return
        if self._user_servers is None:
            raise McpError(self.name, "it is not connected; prepare the ensemble first")
        if not self._user_servers.has_own(principal):
            yield self
            return
        async with self._user_servers.using(principal) as server:
            yield server

    async def refresh(self) -> None:
        """Read its tools again, and ask again which are held back, as after a person's decision.

        Raises:
            McpError: They cannot be read; what was offered before is offered still.
        """
        self.doubt()
        await self._refresh()

    # ── resources and prompts ────────────────────────────────────────────────────────

    async def resources(self) -> list[RemoteResource]:
        """The resources that the server lists, templates included.

        Raises:
            McpError: They cannot be read. So for the three others.
        """
        from handrail.mcp.client.resources import read_resources

        return await self._read(lambda client: read_resources(client, self.name, self.bounds))

    async def read(self, uri: str) -> list[ResourceBody]:
        from handrail.mcp.client.resources import read_resource

        return await self._read(lambda client: read_resource(client, uri))

    async def prompts(self) -> list[RemotePrompt]:
        from handrail.mcp.client.resources import read_prompts

        return await self._read(lambda client: read_prompts(client, self.name, self.bounds))

    async def prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> tuple[Message, ...]:
        """A prompt of the server, filled in: messages for a conversation."""
        from handrail.mcp.client.resources import read_prompt

        return await self._read(lambda client: read_prompt(client, name, arguments or {}))

    async def _read(self, work: Callable[[Client], Awaitable[T]]) -> T:
        try:
            async with time_limit(self.bounds.list):
                return await self.connection.use(work, resend=True)
        except TimeoutError:
            raise McpError(self.name, f"it did not answer within {self.bounds.list:g} s") from None
        except UsageError as error:
            raise McpError(self.name, f"what it sent cannot be read: {error}") from error

    # ── life ─────────────────────────────────────────────────────────────────────────

    async def _open(self) -> None:
        connection = self._connection = await self._made()
        if isinstance(self.endpoint, HttpEndpoint) and self.endpoint.users:
            self._user_servers = UserServers(self.name, self.endpoint, self.bounds, self._of_user)
        self._stale.clear()
        self._watching = asyncio.create_task(self._watch(), name=f"handrail-mcp-{self.name}")
        try:
            await connection.open()
            await self._refresh()
        except McpError as error:
            self.problem = str(error)
            if self.required:
                await self._shut()
                raise
            logger.warning("%s", error)
        except BaseException:
            await self._shut()
            raise

    async def _made(self) -> McpConnection:
        started = await head_start(self.endpoint)
        try:
            from handrail.mcp.client.connection import McpConnection
        except ImportError as error:
            if started is not None:
                await started.end()
            raise import_failure(error, f"MCP server {self.name!r}") from error
        return McpConnection(
            self.name,
            self.endpoint,
            self._link,
            on_change=self._noticed,
            on_tools=self.doubt,
            on_message=None if self._link.relay is None else self._pass_on,
            started=started,
        )

    def _of_user(self, endpoint: HttpEndpoint) -> McpEnsemble:
        """The server as one user goes to it. Its tools are held to what was accepted as those of all are."""
        relay = None if self._given.relay is None else OwnCallsRelay(self._given.relay)
        return McpEnsemble(
            self.name, endpoint, terms=self._terms, link=replace(self._given, relay=relay), defaults=self.defaults
        )

    async def _shut(self) -> None:
        users, self._user_servers = self._user_servers, None
        try:
            if users is not None:
                await users.aclose()
        finally:
            await self._disconnect()

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        watching, self._watching = self._watching, None
        self._listed_over = None
        if watching is not None:
            watching.cancel()
        try:
            if connection is not None:
                await connection.aclose()
        finally:
            if watching is not None:
                await asyncio.wait({watching})

    # ── what it offers ───────────────────────────────────────────────────────────────

    def doubt(self) -> None:
        """What was read may not hold any more: before the next call the tools are read again."""
        self._listed_over = None
        self._doubts += 1

    def _noticed(self, what: str) -> None:
        """Something about the server has changed. A new connection may lead to another server than the last."""
        if what in ("tools", "ready"):
            self._stale.set()
        if self.on_notice is not None:
            self.on_notice(what)

    def _pass_on(self, method: str, params: dict[str, Any]) -> None:
        """Something for the clients that the server works for."""
        if self._link.relay is not None:
            self._link.relay.tell(self.name, method, params, self.under_way.meant())

    async def _watch(self) -> None:
        while True:
            await self._stale.wait()
            self._stale.clear()
            try:
                await self._refresh()
            except McpError as error:
                self.problem = str(error)
                logger.warning("%s", error)
            except Exception:
                logger.exception("the tools of MCP server %r could not be read again", self.name)

    async def _refresh(self) -> None:
        await self._read(self.current)
        self.problem = ""

    async def current(self, client: Client) -> McpToolCatalogue:
        """What the server has, as read over this very connection."""
        if client is self._listed_over:
            return self._catalogue
        async with self._reading:
            if client is not self._listed_over:
                await self._list(client)
        return self._catalogue

    async def _list(self, client: Client) -> None:
        doubts = self._doubts
        async with time_limit(self.bounds.list):
            listed = await read_tools(client, self.name, self.bounds)
        # In a thread: a hostile schema is refused within its budget, and that is more than the loop should wait.
        found = await asyncio.to_thread(
            build_catalogue, listed, self._terms, self._pinned, self._tool, before=self._catalogue
        )
        if doubts == self._doubts:
            self._listed_over = client
        if not found.same(self._catalogue):
            self._swap(found)

    def _pinned(self, tools: Mapping[str, RemoteTool]) -> Mapping[str, str]:
        return {} if self._terms.pins is None else self._terms.pins.held(self.name, tools)

    def _tool(self, remote: RemoteTool, digest: str, definition: ToolDefinition) -> Tool:
        from handrail.mcp.client.remote_calls import RemoteCall

        structured = definition.output_schema is not None
        handler = RemoteCall(self, remote.name, digest, reusable=definition.reusable, structured=structured)
        tool = Tool(
            definition,
            handler,
            style="invocation",
            effect_key=self._terms.effect_keys.get(remote.name),
            repeat_window=self._terms.repeat_windows.get(remote.name),
        )
        return self.defaults.applied(tool, self.name)

    def _swap(self, found: McpToolCatalogue) -> None:
        gone = {tool.name for tool in self._catalogue.tools.values()}
        own = {name: tool for name, tool in self._tools.items() if name not in gone}
        self._catalogue = found
        self._tools = own | {tool.name: tool for tool in found.tools.values()}
        for name, why in found.held.items():
            logger.info("MCP server %r: tool %r is withheld: %s", self.name, name, why)
        if self.on_change is not None:
            self.on_change()


_TERMS = keyword_names(McpToolTerms)
_LINK = keyword_names(McpLinkTerms)
ENSEMBLE_OPTIONS = (keyword_names(McpEnsemble) | _TERMS | _LINK) - {"endpoint", "terms", "link"}
"""What `mcp_ensemble` takes by keyword of any server."""


def mcp_ensemble(name: str, where: str | Endpoint, *args: str, **options: Any) -> McpEnsemble:
    """Make the ensemble of a server, given its address or its command.

    mcp_ensemble("time", "mcp-server-time", "--local-timezone", "UTC")
    mcp_ensemble("docs", "https://docs.example/mcp", headers={"Authorization": "Bearer …"})
    """
    facts: frozenset[str] = frozenset()
    kind = HttpEndpoint if isinstance(where, str) and where.startswith(("http://", "https://")) else StdioEndpoint
    if isinstance(where, str):
        facts = keyword_names(kind) - {"command", "args", "url"}
    check_keyword_names("mcp_ensemble", options, ENSEMBLE_OPTIONS | facts)

    def taken(names: frozenset[str]) -> dict[str, Any]:
        return {key: options.pop(key) for key in names if key in options}

    if args and (kind is HttpEndpoint or not isinstance(where, str)):
        raise UsageError(f"MCP server {name!r} is an address, which takes no arguments; leave {', '.join(args)} out")
    if isinstance(where, str):
        of = {"url": where} if kind is HttpEndpoint else {"command": where, "args": args}
        where = kind(**of, **taken(facts))
    return McpEnsemble(name, where, terms=McpToolTerms(**taken(_TERMS)), link=McpLinkTerms(**taken(_LINK)), **options)
