"""Reads off a request who sent it and what can be done with them."""

from __future__ import annotations

from typing import Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from handrail.core.context import Context, Principal
from handrail.mcp.sdk_internals import connection_of
from handrail.mcp.server.definition import McpCaller, McpServerDefinition

Request = ServerRequestContext[Any, Any]

CALL_KEY = "dev.handrail/idempotency-key"
"""The field of `_meta` that is the same for every sending of one call, and for no other call."""
_LONGEST_NAME = 200
"""Characters of what a client calls itself: they go into the record with each call."""


def is_modern(request: Request) -> bool:
    return request.protocol_version in MODERN_PROTOCOL_VERSIONS


def caller_of(request: Request) -> McpCaller:
    """The sender of a request, as far as the wire tells."""
    params = request.session.client_params
    token = get_access_token()
    headers = getattr(request.request, "headers", None)
    address = getattr(request.request, "client", None)
    return McpCaller(
        protocol=request.protocol_version,
        client="" if params is None else params.client_info.name[:_LONGEST_NAME],
        version="" if params is None else params.client_info.version[:_LONGEST_NAME],
        session=connection_of(request).session_id,
        connection="" if address is None else f"{address.host}:{address.port}",
        subject=None if token is None else token.subject or token.client_id,
        headers={} if headers is None else dict(headers),
        local=request.request is None,
    )


def principal_of(served: McpServerDefinition, request: Request) -> Principal:
    return served.principal(caller_of(request))


def owner_of(served: McpServerDefinition, request: Request) -> str:
    """The owner of what was begun in a request, who alone may go on with it: the principal, with the same token."""
    caller = caller_of(request)
    return f"{served.principal(caller).id}\n{caller.subject or ''}"


def may_use(principal: Principal, *names: str) -> bool:
    """Whether its scopes cover the thing that goes by these names."""
    return Context(principal=principal).allows(*names)


def asks_by_form(request: Request) -> bool:
    """Whether the client says that it can put a form to a person."""
    capabilities = request.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    if elicitation is None:
        return False
    # Before forms had a name of their own, the empty object meant them.
    return elicitation.form is not None or elicitation.url is None
