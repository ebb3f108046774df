"""The agent that an editor talks with. A session of the editor is a conversation of the desk, with the same id.

The turns are those of the desk: what the page and the terminal program show, this
tells the editor, and what they ask a person, it asks as a permission request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from acp import PROTOCOL_VERSION, RequestError
from acp.interfaces import Client
from acp.schema import (
    AcpMcpServer,
    AgentCapabilities,
    ClientCapabilities,
    CloseSessionResponse,
    EnvVariable,
    ForkSessionResponse,
    HttpHeader,
    HttpMcpServer,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    McpServerStdio,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionForkCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
    SseMcpServer,
    StopReason,
)

from handrail.config.mcp import McpSettings, server_name
from handrail.core.errors import HandrailError, LimitExceeded, UsageError
from handrail.core.messages import AssistantMessage
from handrail.core.redact import remember_secret
from handrail.core.secret_names import is_secret_name
from handrail.core.version import VERSION
from handrail.desk.acp.prompt_content import PromptBlock, words_and_files
from handrail.desk.acp.turn import EditorTurn
from handrail.desk.acp.updates import updates_of_items
from handrail.desk.desk import Desk
from handrail.desk.values import ConversationSnapshot
from handrail.mcp.values import Endpoint, HttpEndpoint, StdioEndpoint

EditorServer: TypeAlias = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio
Servers: TypeAlias = Mapping[str, McpSettings]
OpenDesk: TypeAlias = Callable[[Servers], AbstractAsyncContextManager[Desk]]
"""A desk that has these MCP servers beside the configured ones."""
_INVALID, _INTERNAL = -32602, -32603
_MODEL = "model"


class EditorAgent:
    """Implements `acp.Agent`. Use it in an `async with` block, which ends every turn and closes every desk."""

    def __init__(self, open_desk: OpenDesk, folder: Path) -> None:
        self._open_desk = open_desk
        self._folder = folder
        """Of the configuration; every session works there."""
        self._client: Client | None = None
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._desks: dict[str, Desk] = {}
        """By the servers that the editor named."""
        self._sessions: dict[str, Desk] = {}
        self._turns: dict[str, EditorTurn] = {}
        """The turns under way, by session."""

    async def __aenter__(self) -> EditorAgent:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    # ── sessions ─────────────────────────────────────────────────────────────────────

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **kwargs: Any,
    ) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=True, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    fork=SessionForkCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                ),
            ),
            agent_info=Implementation(name="handrail", title="handrail", version=VERSION),
        )

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[EditorServer] | None = None,
        **kwargs: Any,
    ) -> NewSessionResponse:
        desk = await self._desk(mcp_servers)
        with _told_to_editor():
            id = await desk.begin()
        self._sessions[id] = desk
        return NewSessionResponse(session_id=id, config_options=await self._options(id))

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[EditorServer] | None = None,
        additional_directories: list[str] | None = None,
        **kwargs: Any,
    ) -> LoadSessionResponse:
        """Open it again, and tell the editor all that was said."""
        desk = await self._take_up(session_id, mcp_servers)
        total = len(await desk.conversation(session_id))
        at = 0
        while at < total:
            upto = min(at + 40, total)
            for update in updates_of_items(await desk.items(session_id, upto, upto - at)):
                await self._editor.session_update(session_id, update)
            at = upto
        return LoadSessionResponse(config_options=await self._options(session_id))

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[EditorServer] | None = None,
        **kwargs: Any,
    ) -> ResumeSessionResponse:
        await self._take_up(session_id, mcp_servers)
        return ResumeSessionResponse(config_options=await self._options(session_id))

    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[EditorServer] | None = None,
        **kwargs: Any,
    ) -> ForkSessionResponse:
        desk = await self._take_up(session_id, mcp_servers)
        with _told_to_editor():
            id = await desk.fork(session_id)
        self._sessions[id] = desk
        return ForkSessionResponse(session_id=id, config_options=await self._options(id))

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **kwargs: Any
    ) -> ListSessionsResponse:
        if cwd is not None and not self._is_for(cwd):
            return ListSessionsResponse(sessions=[])
        desk = await self._desk(())
        return ListSessionsResponse(
            sessions=[
                SessionInfo(
                    session_id=talk.id,
                    cwd=cwd or str(self._folder),
                    title=talk.title,
                    updated_at=datetime.fromtimestamp(talk.updated / 1000, UTC).isoformat(),
                )
                for talk in await desk.talks()
            ]
        )

    async def close_session(self, session_id: str, **kwargs: Any) -> CloseSessionResponse:
        await self.cancel(session_id)
        self._sessions.pop(session_id, None)
        return CloseSessionResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **kwargs: Any
    ) -> SetSessionConfigOptionResponse:
        if config_id != _MODEL or not isinstance(value, str):
            raise RequestError(_INVALID, f"there is no option {config_id!r} with such a value; there is {_MODEL!r}")
        with _told_to_editor():
            await self._of(session_id).choose(session_id, model=value)
        return SetSessionConfigOptionResponse(config_options=await self._options(session_id))

    async def authenticate(self, method_id: str, **kwargs: Any) -> NoReturn:
        raise RequestError(_INVALID, "handrail needs no sign-in here; keys of models are in its configuration")

    async def set_session_mode(self, session_id: str, mode_id: str, **kwargs: Any) -> NoReturn:
        raise RequestError(_INVALID, f"there is no mode {mode_id!r}; rules in the configuration say what is allowed")

    async def ext_method(self, method: str, params: dict[str, Any]) -> NoReturn:
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Notifications that are not known are left alone, as the protocol says."""

    # ── a turn ───────────────────────────────────────────────────────────────────────

    async def prompt(self, session_id: str, prompt: list[PromptBlock], **kwargs: Any) -> PromptResponse:
        """Say it, and tell the editor all that comes of it until the turn ends."""
        desk = self._of(session_id)
        if session_id in self._turns:
            raise RequestError(_INVALID, "a turn is in progress in this session; wait until it ends, or cancel it")
        turn = self._turns[session_id] = EditorTurn(desk, session_id, self._editor)
        try:
            with _told_to_editor():
                words, files = words_and_files(prompt)
                async with turn:
                    await turn.say(words, files)
                    reason = "cancelled" if turn.cancelled else await self._stop_reason(desk, session_id, turn)
                    await turn.told_all()
                if reason != "cancelled":
                    await turn.tell_waiting()
        finally:
            del self._turns[session_id]
        return PromptResponse(stop_reason=reason)

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        if (turn := self._turns.get(session_id)) is not None:
            await turn.cancel()

    async def _stop_reason(self, desk: Desk, id: str, turn: EditorTurn) -> StopReason:
        """Wait for the end of the turn: why it ended."""
        try:
            await desk.finished(id)
        except LimitExceeded:
            return "max_turn_requests"
        except HandrailError:
            if not turn.cancelled:
                raise
        if turn.cancelled:
            return "cancelled"
        messages = (await desk.conversation(id)).messages
        last = messages[-1] if messages else None
        stop = last.stop if isinstance(last, AssistantMessage) else ""
        return "max_tokens" if stop == "max_tokens" else "refusal" if stop == "refusal" else "end_turn"

    # ── desks ────────────────────────────────────────────────────────────────────────

    @property
    def _editor(self) -> Client:
        assert self._client is not None, "on_connect comes first"
        return self._client

    def _is_for(self, cwd: str) -> bool:
        """Whether the configuration is in this folder or above it, by whatever path the editor knows it."""
        return Path(cwd).resolve().is_relative_to(self._folder.resolve())

    async def _desk(self, given: Sequence[EditorServer] | None) -> Desk:
        servers = _servers(given or ())
        key = repr(sorted(servers.items()))
        async with self._opening:
            if key not in self._desks:
                with _told_to_editor():
                    self._desks[key] = await self._stack.enter_async_context(self._open_desk(servers))
            return self._desks[key]

    async def _take_up(self, id: str, given: Sequence[EditorServer] | None) -> Desk:
        desk = self._sessions.get(id)
        with _told_to_editor():
            if desk is None:
                desk = await self._desk(given)
            await desk.conversation(id)
        self._sessions[id] = desk
        return desk

    def _of(self, id: str) -> Desk:
        try:
            return self._sessions[id]
        except KeyError:
            raise RequestError(_INVALID, f"there is no open session {id!r}; open it with session/load") from None

    async def _options(self, id: str) -> list[SessionConfigOptionSelect | SessionConfigOptionBoolean]:
        """The models to choose from."""
        desk = self._of(id)
        names = [each.name for each in desk.about().models]
        async with aclosing(desk.follow(id)) as told:
            now = await anext(told)
        assert isinstance(now, ConversationSnapshot)
        return [
            SessionConfigOptionSelect(
                id=_MODEL,
                name="Model",
                category="model",
                type="select",
                current_value=now.model,
                options=[SessionConfigSelectOption(value=name, name=name) for name in names],
            )
        ]


class _told_to_editor:
    """An error of ours becomes the error of the request."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UsageError):
            raise RequestError(_INVALID, str(error)) from error
        if isinstance(error, HandrailError):
            raise RequestError(_INTERNAL, str(error)) from error


def _servers(given: Sequence[EditorServer]) -> dict[str, McpSettings]:
    """By the names that they have here. An editor's servers may have tools of the same name, so that each has its
    server's name in front."""
    found: dict[str, McpSettings] = {}
    for each in given:
        name = server_name(each.name)
        if not name or name in found:
            why = "another server has this name" if name else "its name has no letter or digit of A-Z a-z 0-9"
            raise RequestError(_INVALID, f"MCP server {each.name!r} cannot be used: {why}; rename it in the editor")
        found[name] = McpSettings(endpoint=_endpoint(each), literal=True, prefix=f"{name}_")
    return found


def _endpoint(server: EditorServer) -> Endpoint:
    match server:
        case McpServerStdio(command=command, args=args, env=env):
            return StdioEndpoint(command=command, args=tuple(args), env=_values(env))
        case HttpMcpServer(url=url, headers=headers):
            return HttpEndpoint(url=url, headers=_values(headers))
    raise RequestError(_INVALID, f"MCP server {server.name!r}: handrail supports only programs (stdio) and HTTP")


def _values(given: Sequence[EnvVariable | HttpHeader]) -> dict[str, str]:
    """The values as the editor sends them: nothing in them is a variable. Secrets among them are masked from now on."""
    for each in given:
        if is_secret_name(each.name):
            remember_secret(each.value)
    return {each.name: each.value for each in given}
