"""Serves a configuration over MCP: its tools through the executor, resources and prompts."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from handrail.app.app import LOOK, Adjust, App, AppAdditions, cancel_and_wait, open_app, reload_on_change
from handrail.app.converse import ConverseTool
from handrail.app.mcp_resources import ConversationResources, CurrentCaller, ProofResources
from handrail.app.models import open_model
from handrail.app.person import Person
from handrail.app.tool_groups import AppMcpServer, ServedClients
from handrail.config.mcp import PromptSettings, ServeSettings
from handrail.config.values import Config
from handrail.core.context import LOCAL, Principal
from handrail.journal.places import JournalPlace
from handrail.mcp.client.server_questions import ApproverQuestionHandler
from handrail.mcp.server.client_approver import ClientApprover
from handrail.mcp.server.client_relay import McpClientRelay
from handrail.mcp.server.definition import (
    ChangeNotices,
    FirstWords,
    McpCaller,
    McpServerDefinition,
    PromptArgument,
    PromptMessage,
    ResourceSource,
    ServedPrompt,
    ServerBehind,
    check_names,
)
from handrail.mcp.server.sources import FolderSource
from handrail.mcp.values import HttpEndpoint
from handrail.state.url import StateUrl
from handrail.tools.finder import FIND_TOOLS, find_and_describe_tool
from handrail.tools.registry import RegisteredTools, registered
from handrail.tools.tool import Tool

_HOLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@asynccontextmanager
async def open_served(
    config: Config,
    journal: Path,
    wanted: AppAdditions = AppAdditions(),
    person: Person | None = None,
    *,
    version: str,
    look: float | None = LOOK,
    adjust: Adjust = lambda config: config,
    client: FirstWords | None = None,
) -> AsyncIterator[McpServerDefinition]:
    """Everything that `[serve]` says, for as long as the block lasts. A change of its files is taken up meanwhile.

    MCP servers among the tools are told what the `client` can do; None: nobody knows yet who will come.

    Raises:
        UsageError: Something in the configuration is not available.
        McpError: A server that is required is not available.
        JournalError: The journal cannot be opened.
    """
    person = person or Person()
    converse, asker, notices = config.serve.converse, ClientApprover(), ChangeNotices()
    relay = McpClientRelay(asker, client) if config.mcp else None
    async with AsyncExitStack() as stack:
        converser = None if converse is None else ConverseTool(converse, asker)
        rules = wanted.rules if converser is None else (*wanted.rules, f"allow {converser.name}")
        app = await stack.enter_async_context(
            open_app(
                config,
                journal,
                replace(wanted, rules=rules),
                lambda tools: asker,
                person,
                beside=partial(_additional_tools, config.serve, converser),
                adjust=adjust,
                clients=None if relay is None else ServedClients(relay, partial(_noticed, notices)),
            )
        )
        if relay is not None:
            relay.questions = ApproverQuestionHandler(app.approver, None, app.journal)
        if converser is not None:
            converser.begin(app, await stack.enter_async_context(open_model(config, converser.model)))
        app.listeners.append(lambda: notices.changed("tools"))
        if look is not None:
            told = "What changed under [serve], but for `tools`, holds from the next start on."
            stack.push_async_callback(
                cancel_and_wait, asyncio.create_task(reload_on_change(app, person, look, _lasting, told))
            )
        served = _served(app, asker, notices, None if converser is None else converser.name, version)
        yield replace(served, behind=partial(_servers_behind, app), relay=relay)


def _noticed(notices: ChangeNotices, what: str) -> None:
    """A server behind us has changed."""
    match what.partition(":"):
        case "resource", _, uri:
            notices.updated(uri)
        case ("resources" | "prompts") as listed, _, _:
            notices.changed(listed)
        case "ready", _, _:  # what changed while it was away it did not tell
            notices.changed("resources")
            notices.changed("prompts")


def _servers_behind(app: App) -> tuple[ServerBehind, ...]:
    from handrail.mcp.client.passed_server import PassedServer

    # What is no call of a tool has no caller there: it would go out with the credential that all share.
    behind = [server for server in app.servers.values() if not _has_users(server)]
    return tuple(PassedServer(server.ensemble, server.settings.prefix) for server in behind)


def _has_users(server: AppMcpServer) -> bool:
    return isinstance(server.settings.endpoint, HttpEndpoint) and bool(server.settings.endpoint.users)


def _additional_tools(
    settings: ServeSettings, converser: ConverseTool | None, others: RegisteredTools
) -> tuple[Tool, ...]:
    """The tools that go with those that there are: the one that converses, and the one that finds."""
    found = () if converser is None else converser.tools(others)
    if settings.offer == "all":
        return found
    searched = registered(*others, *found)
    check_names(searched)
    return (*found, find_and_describe_tool(searched))


def _served(
    app: App, asker: ClientApprover, notices: ChangeNotices, converse: str | None, version: str
) -> McpServerDefinition:
    settings, asking = app.config.serve, CurrentCaller()
    return McpServerDefinition(
        name="handrail",
        version=version,
        instructions=settings.instructions,
        tools=lambda: app.tools,
        searched=settings.offer == "search",
        invoker=app.executor,
        asker=asker,
        resources=_sources(app, settings, asking),
        prompts=tuple(_prompt(name, prompt) for name, prompt in settings.prompts.items()),
        principal=_principal(app, converse, asking),
        spill=app.spill,
        finish=app.executor.finish,
        confirm_options=_confirm_options(app.journal.path),
        notices=notices,
    )


def _confirm_options(place: JournalPlace) -> str:
    """How a person names the journal; a shared state they name by its variable, as its address has a password."""
    return "" if isinstance(place, StateUrl) else f" --journal {shlex.quote(str(place.absolute()))}"


def _lasting(config: Config) -> ServeSettings:
    """What only a new start can change."""
    return replace(config.serve, tools=None)


def _principal(app: App, converse: str | None, asking: CurrentCaller) -> Callable[[McpCaller], Principal]:
    """The principal of a caller: it may call what is served now, and no more. The server asks this first in every
    request."""

    def principal(caller: McpCaller) -> Principal:
        tools = app.config.serve.tools
        search = (FIND_TOOLS,) if app.config.serve.offer == "search" else ()
        more = (*((converse,) if converse else ()), *search, "resource:*", "prompt:*")
        found = Principal(caller.subject or LOCAL.id, None if tools is None else (*tools, *more))
        asking.now(found.id)
        return found

    return principal


def _sources(app: App, settings: ServeSettings, asking: CurrentCaller) -> tuple[ResourceSource, ...]:
    found: list[ResourceSource] = [FolderSource(name, folder) for name, folder in settings.corpora.items()]
    if settings.conversations:
        found.append(ConversationResources(app.state.conversations(), asking))
    if settings.proofs:
        found.append(ProofResources(app.journal, asking))
    return tuple(found)


def _prompt(name: str, prompt: PromptSettings) -> ServedPrompt:
    names = tuple(dict.fromkeys(_HOLE.findall(prompt.text)))

    async def render(arguments: Mapping[str, str]) -> Sequence[PromptMessage]:
        return [PromptMessage(_HOLE.sub(lambda match: arguments.get(match[1], ""), prompt.text))]

    arguments = tuple(PromptArgument(each, required=True) for each in names)
    return ServedPrompt(name=name, render=render, description=prompt.description, arguments=arguments)
