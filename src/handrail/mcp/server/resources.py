"""resources/*: what can be read, listed and read from the sources that are served, and told of when it changes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from handrail.core.errors import HandrailError, describe_exception
from handrail.mcp.sdk_internals import connection_of
from handrail.mcp.server.caller import Request, is_modern, may_use, principal_of
from handrail.mcp.server.definition import CompletingSource, McpServerDefinition, ResourceSource
from handrail.mcp.server.results import page_of, resource_contents
from handrail.mcp.server.sendable import sendable_text
from handrail.mcp.values import RemoteResource, ResourceBody

NOT_FOUND = -32002
"""What handshake-era clients know an unknown address by; the modern era calls it an invalid parameter."""
_MOST_WATCHED = 1_000

logger = logging.getLogger(__name__)


class McpResourceMethods:
    def __init__(self, served: McpServerDefinition) -> None:
        self._served = served

    async def listed(self, request: Request, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        shown, more = page_of(await self._all(request, template=False), params)
        listed = [types.Resource(uri=each.uri, size=each.size, **_described(each)) for each in shown]
        return types.ListResourcesResult(resources=listed, next_cursor=more)

    async def templates(
        self, request: Request, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        shown, more = page_of(await self._all(request, template=True), params)
        listed = [types.ResourceTemplate(uri_template=each.uri, **_described(each)) for each in shown]
        return types.ListResourceTemplatesResult(resource_templates=listed, next_cursor=more)

    async def read(self, request: Request, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = params.uri
        if self._may(request, uri):
            for source in self._served.resources:
                if (bodies := await _read(source, uri)) is not None:
                    return types.ReadResourceResult(contents=[resource_contents(body) for body in bodies])
        raise _not_found(request, uri)

    async def subscribe(self, request: Request, params: types.SubscribeRequestParams) -> types.EmptyResult:
        if not self._may(request, params.uri):
            raise _not_found(request, params.uri)
        watched = subscribed_addresses(request)
        if len(watched) >= _MOST_WATCHED:
            raise MCPError(types.INVALID_PARAMS, f"no more than {_MOST_WATCHED} resources can be watched at once")
        watched.add(params.uri)
        return types.EmptyResult()

    async def unsubscribe(self, request: Request, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        subscribed_addresses(request).discard(params.uri)
        return types.EmptyResult()

    def watchable(
        self, request: Request, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenRequestParams:
        """What a modern client wants to hear of, without the addresses that it may not read."""
        wanted = params.notifications
        uris = [uri for uri in wanted.resource_subscriptions or () if self._may(request, uri)]
        return params.model_copy(
            update={"notifications": wanted.model_copy(update={"resource_subscriptions": uris or None})}
        )

    async def complete(self, template: str, argument: str, value: str) -> list[str]:
        """What may stand for a name in a template."""
        for source in self._served.resources:
            if isinstance(source, CompletingSource):
                found = await _completed(source, template, argument, value)
                if found is not None:
                    return list(found)
        return []

    def _may(self, request: Request, uri: str) -> bool:
        return may_use(principal_of(self._served, request), f"resource:{uri}")

    async def _all(self, request: Request, *, template: bool) -> list[RemoteResource]:
        principal = principal_of(self._served, request)
        found: dict[str, RemoteResource] = {}
        for source in self._served.resources:
            for each in await _listed(source):
                if each.template is template and may_use(principal, f"resource:{each.uri}"):
                    found.setdefault(each.uri, each)
        return list(found.values())


def _described(each: RemoteResource) -> dict[str, Any]:
    kind = each.media_type or None
    return {"name": each.name or each.uri, "description": each.description or None, "mime_type": kind}


def _not_found(request: Request, uri: str) -> MCPError:
    code = types.INVALID_PARAMS if is_modern(request) else NOT_FOUND
    return MCPError(code, "Resource not found", {"uri": uri})


def subscribed_addresses(request: Request) -> set[str]:
    """The addresses that a client of the handshake era wants to hear of."""
    watched: set[str] = connection_of(request).state.setdefault("handrail.watched", set())
    return watched


async def _listed(source: ResourceSource) -> Sequence[RemoteResource]:
    """The resources of all sources. A source that fails does not hide the others."""
    try:
        return await source.list()
    except (HandrailError, OSError) as error:
        logger.warning("a source of resources cannot be listed: %s", describe_exception(error))
        return []


async def _completed(source: CompletingSource, template: str, argument: str, value: str) -> Sequence[str] | None:
    """Completions from one source; one that fails is passed over."""
    try:
        return await source.complete(template, argument, value)
    except (HandrailError, OSError) as error:
        logger.warning("a source of resources cannot complete %r: %s", argument, describe_exception(error))
        return None


async def _read(source: ResourceSource, uri: str) -> Sequence[ResourceBody] | None:
    try:
        return await source.read(uri)
    except (HandrailError, OSError) as error:
        raise MCPError(
            types.INTERNAL_ERROR, sendable_text(f"{uri} cannot be read: {describe_exception(error)}")
        ) from error
