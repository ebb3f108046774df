"""Every private name of the official `mcp` package that we rely on. No other module uses one directly.

A new minor version of the package may change any of it, so `pyproject.toml` allows only those that were tested.
`docs/design/dependencies.md` says what would let us drop each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
from mcp import Client
from mcp.client._transport import ReadStream as ReadStream, Transport as Transport, TransportStreams as TransportStreams
from mcp.client.auth import OAuthClientProvider
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, HEADER_MISMATCH, PARSE_ERROR, ErrorData


def leave_results_to_us(client: Client) -> None:
    """Switch off what a client does with tools behind its caller's back."""
    # Its check of outputs runs the server's regular expressions in our loop, without any bound, and
    # lists the tools again when one is unknown. The executor checks outputs, in linear time.
    client.session.validate_tool_result = _not_here  # type: ignore[method-assign]
    # After a `HeaderMismatch` it would list the tools and send the call again, past our comparison of both.
    client._relist_tool = _not_again  # type: ignore[method-assign]


async def _not_here(name: str, result: Any) -> None:
    """Outputs are checked by the executor."""


async def _not_again(name: str) -> None:
    raise MCPError(HEADER_MISMATCH, "the tools are listed again by who called")


def is_broken_stream(error: ErrorData) -> bool:
    """Whether the package itself answered a request because the stream of the answer broke off."""
    return error.code == CONNECTION_CLOSED and error.message.startswith("SSE stream")


def is_unreadable_answer(error: ErrorData) -> bool:
    """Whether the package itself answered a request because it could not read the answer."""
    return error.code == PARSE_ERROR and error.message.startswith("Failed to parse ")


def names_a_session(log_message: str) -> bool:
    """Whether a line of its log says the id of a session, which is a secret."""
    return log_message.startswith("Received session ID")


class OpenOAuthProvider(OAuthClientProvider):
    """The package's sign-in with its inner steps open to a subclass."""

    async def restore(self) -> None:
        """Take up what an earlier run left, before anything is sent."""

    def choose_service(self, advertised: list[str]) -> str:
        """Which of the authorization servers that a server names is asked."""
        return super()._select_authorization_server(advertised)

    async def authorize(self) -> httpx2.Request:
        """Get a grant, by default a code from a person, and make the request that turns it into a token."""
        return await super()._perform_authorization()

    async def refresh(self) -> httpx2.Request:
        """The request that renews the token."""
        return await super()._refresh_token()

    async def take_refreshed(self, response: httpx2.Response) -> bool:
        """Whether a token was renewed."""
        return await super()._handle_refresh_response(response)

    def token_endpoint(self) -> str:
        return self._get_token_endpoint()

    async def _initialize(self) -> None:
        await self.restore()
        self._initialized = True

    def _select_authorization_server(self, advertised: list[str]) -> str:
        return self.choose_service(advertised)

    async def _perform_authorization(self) -> httpx2.Request:
        return await self.authorize()

    async def _refresh_token(self) -> httpx2.Request:
        return await self.refresh()

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        return await self.take_refreshed(response)


def connection_of(request: ServerRequestContext[Any, Any]) -> Connection:
    """The connection behind a request. The package shows it to no handler, but it alone knows session and life."""
    return request.session._connection


def before_each_session(sessions: StreamableHTTPSessionManager, prepare: Callable[[], None]) -> None:
    """Have something done before each new session; what it sets on the manager, the session takes over."""
    admit = sessions._admit_session

    def prepared(requestor: Any) -> Any:
        prepare()
        return admit(requestor)

    sessions._admit_session = prepared  # type: ignore[method-assign]
