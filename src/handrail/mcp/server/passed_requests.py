"""Requests that servers behind us answer: resources, prompts, completions, and whatever we do not know.

With one server they pass as they are, page by page. With several, what they list is put together; an address stays as
it is, and where two servers give the same, the first of them in the configuration has it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from operator import methodcaller
from typing import Any, cast

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.errors import ToolError
from handrail.mcp.sdk_internals import connection_of
from handrail.mcp.server.announcer import ChangeAnnouncer
from handrail.mcp.server.caller import Request, is_modern, may_use, principal_of
from handrail.mcp.server.client_relay import McpClientRelay
from handrail.mcp.server.definition import McpServerDefinition, ServerBehind
from handrail.mcp.server.passed_calls import in_era_of, passed_meta
from handrail.mcp.server.passed_greeting import introduced
from handrail.mcp.server.question_wire import LEVEL, LEVELS, pass_question
from handrail.mcp.server.results import page_of

_LISTS = {
    # method: where its items are, what tells them apart, and what a server declares that has it
    "resources/list": ("resources", "uri", "resources"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate", "resources"),
    "prompts/list": ("prompts", "name", "prompts"),
    "skills/list": ("skills", "uri", "io.modelcontextprotocol/skills"),
}
_BY_ADDRESS = frozenset(("resources/read", "resources/directory/read", "skills/get"))
_MOST_PAGES = 100
_MOST_ROUNDS = 10
"""How often one request may ask its client for more input."""
_KNOWN = 10_000
"""Addresses and names of which it is remembered which server has them."""

logger = logging.getLogger(__name__)
Answer = dict[str, Any]


class PassedRequests:
    """A middleware before the server that answers for ourselves."""

    def __init__(self, served: McpServerDefinition, server: Server[Any], announcer: ChangeAnnouncer) -> None:
        self._served = served
        self._server = server
        self._announcer = announcer
        self._owners = BoundedMemory[tuple[str, str], str](_KNOWN, lru=True)

    async def answer(self, ctx: Request, call_next: CallNext) -> HandlerResult:
        """Answer from the servers behind us, or let it be answered here."""
        servers = self._served.behind()
        if not servers or (ctx.method != "initialize" and not connection_of(ctx).initialize_accepted):
            return await call_next(ctx)
        if ctx.method in ("initialize", "server/discover"):
            return introduced(await call_next(ctx), servers, self._served, handshake=ctx.method == "initialize")
        if ctx.request_id is None:
            return await self._noticed(ctx, call_next, servers)
        if ctx.method in _LISTS:
            return await self._listed(ctx, call_next, servers)
        if ctx.method in _BY_ADDRESS:
            return await self._read(ctx, call_next, servers)
        match ctx.method:
            case "prompts/get":
                return await self._prompt(ctx, call_next, servers)
            case "completion/complete":
                return await self._completed(ctx, call_next, servers)
            case "resources/subscribe" | "resources/unsubscribe":
                return await self._subscribed(ctx, call_next, servers)
            case "logging/setLevel":
                return await self._level(ctx, call_next, servers)
        if self._server.get_request_handler(ctx.method) is None:
            return await self._unknown(ctx, call_next, servers)
        return await call_next(ctx)

    # ── one request at one server ────────────────────────────────────────────────────

    async def _ask(self, ctx: Request, server: ServerBehind, **changed: Any) -> Answer:
        """What it says, in the words of the client's era."""
        params = {**(ctx.params or {}), **changed}
        params.pop("_meta", None)
        if meta := passed_meta(ctx):
            params["_meta"] = meta
        report = ctx.session.report_progress if "progressToken" in ((ctx.params or {}).get("_meta") or {}) else None
        relay = self._served.relay or McpClientRelay(self._served.asker)
        with relay.passing(server.name, ctx):
            answer = await server.request(ctx.method, params, report)
            for _ in range(_MOST_ROUNDS):
                if is_modern(ctx) or answer.get("resultType") != "input_required":
                    break
                # The client cannot be told to come back with answers: it is asked now.
                answers = await _asked(ctx, answer)
                again = {**params, "inputResponses": answers, "requestState": answer.get("requestState")}
                answer = await server.request(ctx.method, again, report)
        await relay.flush()
        return in_era_of(ctx, answer)

    async def _first(
        self, ctx: Request, servers: Sequence[ServerBehind], kind: str, name: str, **changed: Any
    ) -> Answer:
        """The answer of who is known to have it, or else of the first who does.

        Raises:
            MCPError: What the first of them refused with.
        """
        owner = self._owners.get((kind, name))
        asked = [server for server in servers if server.name == owner] or list(servers)
        refused: MCPError | None = None
        for server in asked:
            try:
                answer = await self._ask(ctx, server, **changed)
            except MCPError as error:
                refused = refused or error
                continue
            self._owners[kind, name] = server.name
            return answer
        raise refused or MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)

    def _may(self, ctx: Request, name: str) -> bool:
        return may_use(principal_of(self._served, ctx), name)

    # ── lists ────────────────────────────────────────────────────────────────────────

    async def _listed(self, ctx: Request, call_next: CallNext, servers: Sequence[ServerBehind]) -> HandlerResult:
        key, same, capability = _LISTS[ctx.method]
        able = [server for server in servers if declares(server, capability) or _may_have(server, capability)]
        own = await self._own(ctx, call_next, key)
        if not able:
            return await call_next(ctx)
        if len(able) == 1 and not own:
            answer = await self._ask(ctx, able[0])
            return {**answer, key: self._taken(ctx, able[0], answer.get(key), key, same)}
        pages = await asyncio.gather(*(self._all(ctx, server, key, same) for server in able))
        found: dict[str, Any] = {}
        for item in (*own, *(item for page in pages for item in page)):
            found.setdefault(str(item.get(same)), item)
        cursor = (ctx.params or {}).get("cursor")
        shown, more = page_of(list(found.values()), types.PaginatedRequestParams(cursor=cursor))
        return in_era_of(ctx, {key: list(shown), **({"nextCursor": more} if more else {})})

    async def _own(self, ctx: Request, call_next: CallNext, key: str) -> list[Any]:
        """What we have ourselves, all of it."""
        if not (self._served.prompts if key == "prompts" else key != "skills" and self._served.resources):
            return []
        found: list[Any] = []
        ask: Any = {name: value for name, value in (ctx.params or {}).items() if name != "cursor"}
        while True:
            page = cast(Answer, await call_next(replaced(ctx, ask)))
            found += page[key]
            if (cursor := page.get("nextCursor")) is None:
                return found
            ask = {**ask, "cursor": cursor}

    async def _all(self, ctx: Request, server: ServerBehind, key: str, same: str) -> list[Any]:
        """Every page of one server. A server that fails does not hide the others."""
        found: list[Any] = []
        cursor: Any = None
        try:
            for _ in range(_MOST_PAGES):
                answer = await self._ask(replaced(ctx, _without_cursor(ctx, cursor)), server)
                found += self._taken(ctx, server, answer.get(key), key, same)
                if (cursor := answer.get("nextCursor")) is None:
                    break
        except MCPError as error:
            logger.warning("MCP server %r does not answer %s: %s", server.name, ctx.method, error.message)
        return found

    def _taken(self, ctx: Request, server: ServerBehind, items: Any, key: str, same: str) -> list[Any]:
        """What a server lists, under the names that it has here; whose it is is remembered."""
        kept: list[Any] = []
        for item in items if isinstance(items, list) else ():
            if key == "prompts" and server.prefix:
                item = {**item, "name": f"{server.prefix}{item.get('name')}"}
            name = str(item.get(same))
            if self._may(ctx, f"prompt:{name}" if key == "prompts" else f"resource:{name}"):
                kept.append(item)
                if (key, name) not in self._owners:
                    self._owners[key, name] = server.name
        return kept

    # ── one of them ──────────────────────────────────────────────────────────────────

    async def _read(self, ctx: Request, call_next: CallNext, servers: Sequence[ServerBehind]) -> HandlerResult:
        uri = _text(ctx, "uri")
        if not self._may(ctx, f"resource:{uri}"):
            return await call_next(ctx)
        if ctx.method == "resources/read" and self._served.resources:
            try:
                return await call_next(ctx)
            except MCPError as error:
                if error.message != "Resource not found":
                    raise
        return await self._first(ctx, servers, "skills" if ctx.method == "skills/get" else "resources", uri)

    async def _prompt(self, ctx: Request, call_next: CallNext, servers: Sequence[ServerBehind]) -> HandlerResult:
        name = _text(ctx, "name")
        theirs = [server for server in servers if name.startswith(server.prefix)]
        if self._is_own(name) or not theirs or not self._may(ctx, f"prompt:{name}"):
            return await call_next(ctx)
        owner = self._owners.get(("prompts", name))
        server = next((each for each in theirs if each.name == owner), None)
        if server is not None:
            return await self._ask(ctx, server, name=name.removeprefix(server.prefix))
        return await self._tried(
            ctx, theirs, lambda server: self._ask(ctx, server, name=name.removeprefix(server.prefix))
        )

    async def _completed(self, ctx: Request, call_next: CallNext, servers: Sequence[ServerBehind]) -> HandlerResult:
        ref = (ctx.params or {}).get("ref")
        ref = ref if isinstance(ref, Mapping) else {}
        if ref.get("type") == "ref/resource":
            template = str(ref.get("uri"))
            if ("resourceTemplates", template) not in self._owners and self._served.resources:
                return await call_next(ctx)
            return await self._first(ctx, servers, "resourceTemplates", template)
        name = str(ref.get("name"))
        theirs = [server for server in servers if name.startswith(server.prefix)]
        if self._is_own(name) or not theirs:
            return await call_next(ctx)
        owner = self._owners.get(("prompts", name))
        return await self._tried(
            ctx,
            [each for each in theirs if each.name == owner] or theirs,
            lambda server: self._ask(ctx, server, ref={**ref, "name": name.removeprefix(server.prefix)}),
        )

    def _is_own(self, prompt: str) -> bool:
        return any(prompt == each.name for each in self._served.prompts)

    async def _unknown(self, ctx: Request, call_next: CallNext, servers: Sequence[ServerBehind]) -> HandlerResult:
        """A method that is none of ours. Who does not know it either says so."""
        return await self._tried(ctx, servers, lambda server: self._ask(ctx, server), types.METHOD_NOT_FOUND)

    async def _tried(
        self,
        ctx: Request,
        servers: Sequence[ServerBehind],
        ask: Callable[[ServerBehind], Awaitable[Answer]],
        passable: int | None = None,
    ) -> Answer:
        """The first answer. With `passable`, only this refusal lets the next one be asked."""
        refused: MCPError | None = None
        for server in servers:
            try:
                return await ask(server)
            except MCPError as error:
                if passable is not None and error.code != passable:
                    raise
                refused = refused or error
        raise refused or MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)

    # ── what a client wants to hear ──────────────────────────────────────────────────

    async def _subscribed(self, ctx: Request, call_next: CallNext, servers: Sequence[ServerBehind]) -> HandlerResult:
        uri = _text(ctx, "uri")
        if ctx.method == "resources/unsubscribe":
            answer = await call_next(ctx)
            if not any(uri in each.state.get("handrail.watched", ()) for each in self._announcer.connections):
                await self._watched(servers, uri, methodcaller("unwatch", uri))
            return answer
        if self._may(ctx, f"resource:{uri}"):
            await self._watched(servers, uri, methodcaller("watch", uri))
        return await call_next(ctx)

    async def watch(self, request: Request, uris: Sequence[str]) -> None:
        """Have changes of these told, for a client that listens; who does not tell of them is not asked twice."""
        for uri in uris:
            try:
                await self._watched(self._served.behind(), uri, methodcaller("watch", uri))
            except MCPError as error:
                logger.debug("changes of %s are not told: %s", uri, error.message)

    async def _watched(
        self, servers: Sequence[ServerBehind], uri: str, act: Callable[[ServerBehind], Awaitable[None]]
    ) -> None:
        owner = self._owners.get(("resources", uri))
        able = [server for server in servers if declares(server, "resources", "subscribe")]
        asked = [server for server in able if server.name == owner] or able
        refused: MCPError | None = None
        for server in asked:
            try:
                return await act(server)
            except MCPError as error:
                refused = refused or error
        if refused is not None and not self._served.resources:
            raise refused

    async def _level(self, ctx: Request, call_next: CallNext, servers: Sequence[ServerBehind]) -> HandlerResult:
        answer = await call_next(ctx)
        wanted = {each.state[LEVEL] for each in self._announcer.connections if LEVEL in each.state}
        level = min(wanted, key=LEVELS.index, default="info")
        able = [server for server in servers if declares(server, "logging") and not speaks_modern(server)]
        for server in able:
            try:
                await server.request(ctx.method, {"level": level})
            except MCPError as error:
                if len(able) == 1:
                    raise
                logger.debug("MCP server %r takes no level: %s", server.name, error.message)
        return answer

    async def _noticed(self, ctx: Request, call_next: CallNext, servers: Sequence[ServerBehind]) -> HandlerResult:
        if ctx.method == "notifications/roots/list_changed":
            for server in servers:
                if not speaks_modern(server):
                    await server.notify(ctx.method, ctx.params or {})
        return await call_next(ctx)


def declares(server: ServerBehind, capability: str, also: str = "") -> bool:
    """Whether a server says that it has it; of one that was never reached nobody knows, so it is not asked."""
    declared: Any = {} if server.facts is None else server.facts.declared
    found = declared.get(capability) if "/" not in capability else (declared.get("extensions") or {}).get(capability)
    return found is not None and (not also or bool(found.get(also)) or speaks_modern(server))


def _may_have(server: ServerBehind, capability: str) -> bool:
    """In the older era a server has no place to say which extensions it has."""
    return "/" in capability and server.facts is not None and not speaks_modern(server)


def speaks_modern(server: ServerBehind) -> bool:
    return server.facts is not None and server.facts.protocol in MODERN_PROTOCOL_VERSIONS


def replaced(ctx: Request, params: Mapping[str, Any]) -> Request:
    return replace(ctx, params=params)


def _without_cursor(ctx: Request, cursor: Any) -> dict[str, Any]:
    kept = {name: value for name, value in (ctx.params or {}).items() if name != "cursor"}
    return kept if cursor is None else {**kept, "cursor": cursor}


def _text(ctx: Request, name: str) -> str:
    found = (ctx.params or {}).get(name)
    if not isinstance(found, str):
        raise MCPError(types.INVALID_PARAMS, f"{name} is missing, or no text")
    return found


async def _asked(ctx: Request, answer: Answer) -> dict[str, Any]:
    """The client's answers to what a modern server wants to know first."""
    requests = answer.get("inputRequests")
    found: dict[str, Any] = {}
    for key, asked in (requests if isinstance(requests, dict) else {}).items():
        try:
            found[key] = await pass_question(ctx, str(asked.get("method")), asked.get("params") or {})
        except ToolError as error:
            raise MCPError(types.INTERNAL_ERROR, error.message) from error
    return found
