"""A server as seen by a proxy between it and a client: requests and answers are passed on unchanged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, LOG_LEVEL_META_KEY, ErrorData, Notification, Request
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from handrail.core.errors import McpError
from handrail.mcp.client.failures import TransportFault, clean_server_text
from handrail.mcp.values import ServerFacts

if TYPE_CHECKING:
    from mcp import Client

    from handrail.mcp.client.ensemble import McpEnsemble

_AS_IT_IS: TypeAdapter[Any] = TypeAdapter(dict[str, Any])
_READS = ("resources/", "prompts/", "completion/", "skills/")
"""Methods that change nothing: after a lost connection they are asked again."""


class _PassedRequest(Request[dict[str, Any], str]):
    """Any request, as it came."""


class _PassedNotification(Notification[dict[str, Any], str]):
    """Any notification, as it came."""


class PassedServer:
    """One server behind us."""

    def __init__(self, server: McpEnsemble, prefix: str = "") -> None:
        self._server = server
        self.name = server.name
        self.prefix = prefix
        """Before the names of its tools and prompts."""

    @property
    def facts(self) -> ServerFacts | None:
        """What it says of itself; None if it was never reached."""
        try:
            return self._server.connection.facts
        except McpError:
            return None

    @property
    def modern(self) -> bool:
        facts = self.facts
        return facts is not None and facts.protocol in MODERN_PROTOCOL_VERSIONS

    async def request(
        self, method: str, params: Mapping[str, Any], on_progress: Callable[..., Awaitable[None]] | None = None
    ) -> dict[str, Any]:
        """Ask it, and get what it says, as it says it.

        Raises:
            MCPError: What it refuses with, as it came; or it is not there.
        """
        asked = _PassedRequest(method=method, params=params_for(dict(params), modern=self.modern))

        async def ask(client: Client) -> dict[str, Any] | ErrorData:
            try:
                answer: dict[str, Any] = await client.session.send_request(
                    asked, _AS_IT_IS, progress_callback=cast(Any, on_progress)
                )
                return answer
            except MCPError as error:
                if isinstance(error.data, TransportFault) or error.code == CONNECTION_CLOSED:
                    raise
                return error.error

        try:
            answer = await self._server.connection.use(ask, resend=method.startswith(_READS))
        except (McpError, TimeoutError) as error:
            raise MCPError(INTERNAL_ERROR, clean_server_text(str(error))) from error
        if isinstance(answer, ErrorData):
            raise MCPError.from_error_data(answer)
        return answer

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell it something; where it is not there, nobody is told."""
        told = _PassedNotification(method=method, params=dict(params))

        async def tell(client: Client) -> None:
            await client.session.send_notification(told)  # type: ignore[arg-type]  # any method is sent as it is

        try:
            await self._server.connection.use(tell, resend=False, wait=0)
        except (McpError, TimeoutError):
            return

    async def watch(self, uri: str) -> None:
        """Hear of changes of a resource.

        Raises:
            MCPError: It does not tell of them, or is not there.
        """
        await self._watching(self._server.connection.watch(uri))

    async def unwatch(self, uri: str) -> None:
        await self._watching(self._server.connection.unwatch(uri))

    async def _watching(self, work: Any) -> None:
        try:
            await work
        except McpError as error:
            code = getattr(error, "code", INTERNAL_ERROR)
            raise MCPError(code if isinstance(code, int) else INTERNAL_ERROR, clean_server_text(error.why)) from error


def params_for(params: dict[str, Any], *, modern: bool) -> dict[str, Any]:
    """Parameters of a request as a server of this era knows them: only a modern one is told each time what to log."""
    meta = params.get("_meta")
    if modern or not isinstance(meta, dict) or LOG_LEVEL_META_KEY not in meta:
        return params
    kept = {name: value for name, value in meta.items() if name != LOG_LEVEL_META_KEY}
    return {**params, "_meta": kept} if kept else {name: value for name, value in params.items() if name != "_meta"}
