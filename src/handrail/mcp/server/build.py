"""Puts what is served behind the library's low-level server, which knows wires and eras and judges nothing."""

from __future__ import annotations

import logging
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from typing import Any, cast

import anyio
import mcp_types as types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from pydantic import ValidationError

from handrail.core.ids import NewId, new_id
from handrail.mcp.sdk_internals import connection_of
from handrail.mcp.server.announcer import ChangeAnnouncer
from handrail.mcp.server.call_rounds import BUG
from handrail.mcp.server.caller import Request, is_modern
from handrail.mcp.server.calls_in_progress import CallsInProgress
from handrail.mcp.server.deciders import LIFE, state_sealing
from handrail.mcp.server.definition import ChangingSource, McpServerDefinition
from handrail.mcp.server.passed_requests import PassedRequests
from handrail.mcp.server.prompts import McpPromptMethods
from handrail.mcp.server.question_wire import set_log_level
from handrail.mcp.server.relay_wire import SdkRelayWire
from handrail.mcp.server.resources import McpResourceMethods
from handrail.mcp.server.sendable import sendable_json
from handrail.mcp.server.tasks.extension import install_tasks
from handrail.mcp.server.tasks.store import TaskStore
from handrail.mcp.server.tasks.subscriptions import TaskSubscriptions
from handrail.mcp.server.tool_calls import McpToolCalls

_Life = Callable[[Server[Any]], AbstractAsyncContextManager[dict[str, Any]]]

_SOON = CacheHint(ttl_ms=5_000, scope="private")
"""Lists depend on who asks, and a new set of tools may come at any time."""
_HINTS: dict[CacheableMethod, CacheHint] = {
    "server/discover": _SOON,
    "tools/list": _SOON,
    "prompts/list": _SOON,
    "resources/list": _SOON,
    "resources/templates/list": _SOON,
    "resources/read": CacheHint(ttl_ms=0, scope="private"),
}
_GRACE = 5.0
"""Seconds that calls get to end when the server does."""

logger = logging.getLogger(__name__)


def build_mcp_server(
    served: McpServerDefinition,
    *,
    new_id: NewId = new_id,
    state_life: float = LIFE,
    under_way: CallsInProgress | None = None,
    tasks: TaskStore | None = None,
) -> Server[Any]:
    """A server for either era and any transport. One `McpServerDefinition` may be built several times.

    With `tasks`, long calls become tasks where the client can have them. Who wants to end the calls that are
    under way before the transport ends gives `under_way`.
    """
    going = under_way or CallsInProgress()
    calls, resources, announcer = (
        McpToolCalls(served, new_id, going, tasks),
        McpResourceMethods(served),
        ChangeAnnouncer(),
    )
    prompts = McpPromptMethods(served, resources)
    listener = ListenHandler(announcer.bus)
    listen = listener if tasks is None else TaskSubscriptions(served, tasks, announcer.bus, listener)

    async def listened(
        request: Request, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        wanted = resources.watchable(request, params)
        await passed.watch(request, wanted.notifications.resource_subscriptions or ())
        return await listen(request, wanted)

    async def end() -> None:
        listen.close()
        await going.end(_GRACE)
        await announcer.aclose()
        if served.relay is not None:
            await served.relay.aclose()
        await calls.runs.aclose()

    with warnings.catch_warnings():  # setting a logging level is of the past, but its clients are not
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        server: Server[Any] = _ChangeAnnouncingServer(
            served.name,
            version=served.version,
            instructions=served.instructions or None,
            lifespan=_life(served, announcer, end),
            cache_hints=_HINTS,
            get_tool_input_schema=calls.schema,
            on_list_tools=calls.listed,
            on_call_tool=cast(Any, calls.call),  # a task is a dict: the library lets it pass, its type does not
            on_list_resources=resources.listed,
            on_list_resource_templates=resources.templates,
            on_read_resource=resources.read,
            on_subscribe_resource=resources.subscribe,
            on_unsubscribe_resource=resources.unsubscribe,
            on_subscriptions_listen=listened,
            on_list_prompts=prompts.listed,
            on_get_prompt=prompts.get,
            on_completion=prompts.complete,
            on_set_logging_level=set_log_level,
        )
    passed = PassedRequests(served, server, announcer)
    if served.relay is not None:
        served.relay.attach(SdkRelayWire(announcer.connections))
    server.middleware += [_sent_whole, announcer.meet, _ending(calls), passed.answer]
    server.middleware.append(state_sealing(served, life=state_life))
    if tasks is not None:
        install_tasks(server, served, tasks)
    return server


def _life(served: McpServerDefinition, announcer: ChangeAnnouncer, end: Callable[[], Awaitable[None]]) -> _Life:
    """The life of the server: while it serves, it hears of changes; then it ends what it began."""

    def heard(uri: str | None) -> None:
        announcer.hear(None if uri else "resources", uri or "")

    @asynccontextmanager
    async def life(server: Server[Any]) -> AsyncIterator[dict[str, Any]]:
        with ExitStack() as stack:
            stack.callback(served.notices.listen(announcer.hear))
            for source in served.resources:
                if isinstance(source, ChangingSource):
                    stack.callback(source.watch(heard))
            try:
                yield {}
            finally:
                # Whoever ends the server may do it by cancelling, and the library cancels over and over.
                with anyio.move_on_after(2 * _GRACE, shield=True):
                    await end()

    return life


class _ChangeAnnouncingServer(Server[Any]):
    """Says that its lists change, to clients of the handshake era as well; the library only says so when told."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        told = notification_options or NotificationOptions(True, True, True)
        return super().create_initialization_options(told, experimental_capabilities, extensions)


async def _sent_whole(ctx: Request, call_next: CallNext) -> HandlerResult:
    """No text of a tool, a file or a name may end the connection because it cannot be written.

    Nor may the words of a bug get to the client: they may hold anything.
    """
    try:
        result = await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception as error:
        logger.exception("%s could not be answered", ctx.method)
        raise MCPError(types.INTERNAL_ERROR, BUG) from error
    return sendable_json(result) if isinstance(result, dict) else result


def _ending(calls: McpToolCalls) -> ServerMiddleware[Any]:
    """Ends the run of a session with the session."""

    async def watch(ctx: Request, call_next: CallNext) -> HandlerResult:
        if not is_modern(ctx):
            connection = connection_of(ctx)
            session = connection.session_id
            if session is not None and not connection.state.setdefault("handrail.ends", False):
                connection.state["handrail.ends"] = True
                connection.exit_stack.push_async_callback(calls.runs.leave, session)
        return await call_next(ctx)

    return watch
