"""Calls a remote tool: once, unless it may be sent again, and with an honest outcome when the connection is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mcp_types as codes
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from handrail.core.calls import Output
from handrail.core.errors import Forbidden, InDoubt, McpError, ServerLost, ServerRefused, ToolError, UsageError
from handrail.core.invocation import Invocation
from handrail.mcp.client.content import output_of
from handrail.mcp.client.failures import McpAnswerTooLarge, clean_server_text
from handrail.mcp.client.tasks import FollowedCall, finish_task, follow_call
from handrail.mcp.server.client_questions import KEY as CLIENT, ClientAsk, ClientBehindCall

if TYPE_CHECKING:
    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import CallToolResult

    from handrail.mcp.client.ensemble import McpEnsemble

IDEMPOTENCY_KEY = "dev.handrail/idempotency-key"
"""The field of `_meta` with our idempotency key: the same for every attempt at a call, and for no other call."""

_CODES = {-32602: "invalid_params", -32002: "not_found"}
"""What some protocol errors are called; the others are an `mcp_error`."""
_MOST_ADDRESSES = 3
"""To which a person is sent before one call."""


class RemoteCall:
    """The handler of one tool of a server."""

    def __init__(self, server: McpEnsemble, name: str, digest: str, *, reusable: bool, structured: bool) -> None:
        self._server = server
        self._name = name
        self._digest = digest
        self._reusable = reusable
        """Whether it may be sent again: it changes nothing, or nothing more."""
        self._structured = structured

    def listing(self) -> dict[str, Any]:
        """How its server lists the tool now."""
        found = self._server.remote.get(self._name)
        return {} if found is None else found.listed

    async def __call__(self, invocation: Invocation) -> Output:
        """Calls the tool at its server.

        Raises:
            Forbidden: The tool is not what it was when it was offered.
            InDoubt: It was sent, and nobody knows what came of it.
            ToolError: It failed there, or on the way.
        """
        try:
            async with self._server.for_caller(invocation.context.principal.id) as server:
                got = await self._asked(server, invocation)
        except McpError as error:  # nothing was sent
            raise ToolError("network", str(error)) from error
        if isinstance(got, str):
            raise Forbidden(f"{invocation.tool_name!r} is not called: {got}")
        return self._output(invocation, got)

    async def _asked(self, server: McpEnsemble, invocation: Invocation) -> CallToolResult | str:
        sending = _CallAttempt(server, self._name, self._digest, invocation)
        try:
            with server.under_way.calling(invocation):
                return await self._sent(server, sending)
        except McpError as error:
            raise self._failure(error, sending) from error
        except TimeoutError as error:
            raise self._failure(McpError(self._server.name, "it did not answer in time"), sending) from error

    def _output(self, invocation: Invocation, got: CallToolResult) -> Output:
        client = _client_behind(invocation)
        said = None if client is None else got.model_dump(by_alias=True, mode="json", exclude_unset=True)
        try:
            output = output_of(got, structured=self._structured)
        except ToolError:
            if client is not None and said is not None:
                client.keep(invocation.id, None, said)
            raise
        if client is not None and said is not None:
            client.keep(invocation.id, output.output, said)
        return output

    async def _sent(self, server: McpEnsemble, sending: _CallAttempt) -> CallToolResult | str:
        try:
            return await server.connection.use(sending, resend=self._reusable)
        except ServerLost:
            if sending.followed.task is None:
                raise
        # The server works on it as a task, which outlives the connection: it is asked for, not sent again.
        return await server.connection.use(sending, resend=True)

    def _failure(self, error: McpError, sending: _CallAttempt) -> ToolError:
        if isinstance(error, ServerRefused) and not sending.followed.under_way:
            if sending.refusal is not None and (client := sending.client) is not None:
                return client.refuse(sending.refusal.code, sending.refusal.message, sending.refusal.data)
            return ToolError(_CODES.get(error.code, "mcp_error"), str(error))
        if sending.sent and not self._reusable and not (isinstance(error, ServerLost) and not error.sent):
            return InDoubt(
                f"{self._name!r} was sent to its server and no usable answer came back ({error}); whether it took "
                "effect is not known: do not repeat it, check first, or ask a person"
            )
        match error:
            case ServerLost():
                return ToolError("network", str(error))
            case McpAnswerTooLarge():
                return ToolError("too_large", str(error))
        return ToolError("mcp_error", str(error))


class _CallAttempt:
    """What is done over the connection, perhaps twice; and whether the call itself was begun."""

    def __init__(self, server: McpEnsemble, name: str, digest: str, invocation: Invocation) -> None:
        self._server = server
        self._name = name
        self._digest = digest
        self._invocation = invocation
        self.sent = False
        self.refusal: codes.ErrorData | None = None
        """The protocol error that it was answered with last."""
        self.client = _client_of(invocation)
        self.followed = FollowedCall(server.name, self._followed)

    def _followed(self, status: str, words: str) -> None:
        """The server works on it as a task; who called may have one too, and need not wait."""
        if self.client is not None and self.client.behind is not None:
            self.client.detach()
        self._invocation.progress(stage=words or status)

    async def __call__(self, client: Client) -> CallToolResult | str:
        """The result, or why the tool may not be called."""
        if self.followed.task is not None:
            return await finish_task(client.session, self.followed)
        self.sent = False
        now = await self._server.current(client)
        if (why := now.refusal(self._name, self._digest)) is not None:
            return why
        self.sent = True
        try:
            return await self._called(client)
        except MCPError as error:
            self.refusal = error.error
            match error.code:
                case codes.URL_ELICITATION_REQUIRED if self.client is None or self.client.behind is None:
                    await self._visit(error)
                    return await self._called(client)  # it did nothing yet: it cannot, before somebody was there
                case codes.HEADER_MISMATCH:
                    self._server.doubt()
                    now = await self._server.current(client)
                    if (why := now.refusal(self._name, self._digest)) is not None:
                        return why
            raise

    async def _called(self, client: Client) -> CallToolResult:
        with follow_call(self.followed):
            return await client.call_tool(
                self._name,
                self._invocation.arguments,
                progress_callback=_progress(self._invocation),
                meta=_meta(self._invocation, modern=client.protocol_version in MODERN_PROTOCOL_VERSIONS),
            )

    async def _visit(self, error: MCPError) -> None:
        """Let a person go where the server wants them to go first.

        Raises:
            ServerRefused: Nobody goes there. It says where.
        """
        wanted = _addresses(error)
        asking = self._server.asking
        went = asking is not None and "elicitation" in asking.answers and 0 < len(wanted) <= _MOST_ADDRESSES
        if asking is not None and went:
            for url, message in wanted:
                try:
                    went = went and (await asking.elicit(self._server.name, message, None, url)).action == "accept"
                except UsageError as mistake:
                    raise ServerRefused(self._server.name, error.code, str(mistake)) from error
        if not went:
            where = ", ".join(url for url, _ in wanted[:_MOST_ADDRESSES]) or "an address that it does not tell"
            words = f"{error.message}; a person must open {where} first, then it can be called again"
            raise ServerRefused(self._server.name, error.code, clean_server_text(words)) from error


def _addresses(error: MCPError) -> list[tuple[str, str]]:
    try:
        wanted = UrlElicitationRequiredError.from_error(error.error).elicitations
    except (ValidationError, AttributeError, TypeError):
        return []
    return [(each.url, each.message) for each in wanted]


def _progress(invocation: Invocation) -> ProgressFnT:
    async def report(progress: float, total: float | None, message: str | None) -> None:
        invocation.progress(progress, total, message or "")

    return report


def _client_of(invocation: Invocation) -> ClientAsk | None:
    """The MCP client that the call came from, if it came from one."""
    found = invocation.auxdata.get(CLIENT)
    return found if isinstance(found, ClientAsk) else None


def _client_behind(invocation: Invocation) -> ClientBehindCall | None:
    client = _client_of(invocation)
    return None if client is None else client.behind


def _meta(invocation: Invocation, *, modern: bool) -> Any:
    client = _client_behind(invocation)
    told = {} if client is None else dict(client.meta)
    if not modern:
        told.pop(codes.LOG_LEVEL_META_KEY, None)  # it was told once
    told |= {IDEMPOTENCY_KEY: invocation.idempotency_key, "traceparent": invocation.context.trace}
    return {name: value for name, value in told.items() if value} or None
