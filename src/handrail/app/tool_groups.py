"""The groups of tools of a configuration, each made of what it stands for: a file, an MCP server, handrail itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.app.models import open_model
from handrail.app.person import Person, endpoint_description
from handrail.config.approvals import FilePins, unapproved_reason
from handrail.config.approvals_file import ServerApproval
from handrail.config.mcp import McpSettings, SummarizeSettings
from handrail.config.tools import files_of
from handrail.config.values import Config
from handrail.config.watch import config_files as watched
from handrail.core.errors import HandrailError, SignInFailed, UsageError
from handrail.core.ports import Approver, Journal, Model
from handrail.mcp.values import HttpEndpoint, StdioEndpoint
from handrail.tools.ensemble import Ensemble

if TYPE_CHECKING:
    from handrail.mcp.client.ensemble import McpEnsemble
    from handrail.mcp.client.server_questions import ClientRelay
    from handrail.sessions.llm import LLM


@dataclass(slots=True, eq=False)
class AppMcpServer:
    """An MCP server in use."""

    name: str
    settings: McpSettings
    ensemble: McpEnsemble
    lent: list[LLM] = field(default_factory=list)
    """Models that it may ask; they are closed with it."""
    approval: ServerApproval | None = None
    """What the user had said of it once it was up: another word since then means another look at its tools."""

    async def close(self) -> None:
        try:
            await self.ensemble.close()
        finally:
            await _close_models(self.lent)


@dataclass(frozen=True, slots=True)
class ServedClients:
    """The MCP clients that servers work for, where we stand between them."""

    relay: ClientRelay
    on_notice: Callable[[str], None]
    """Called in the loop when something of a server has changed; see `McpEnsemble.on_notice`."""


@dataclass(frozen=True, slots=True)
class GroupContext:
    """What groups are given beside their settings."""

    person: Person
    approver: Approver
    journal: Journal | None = None
    on_change: Callable[[], None] = lambda: None
    """Called in the loop when a server has other tools than before."""
    clients: ServedClients | None = None


async def approved_servers(config: Config, person: Person) -> dict[str, McpSettings]:
    """The servers that may be used; of the others the person is told, or asked. Nothing is started here.

    Raises:
        UsageError: One that is required may not.
    """
    found: dict[str, McpSettings] = {}
    for name, settings in config.mcp.items():
        if not settings.enabled:
            continue
        why = None if config.file is None else unapproved_reason(person.approvals, config.file, name, settings.endpoint)
        if why is None or await _consented(config, name, settings, why, person):
            found[name] = settings
            continue
        told = server_refusal(name, settings, why)
        if settings.required:
            raise UsageError(told)
        person.tell(told)
    return found


def server_refusal(name: str, settings: McpSettings, why: str) -> str:
    """Why a server is not used, with exactly what it is and what to do."""
    verb, what = ("started", "command") if isinstance(settings.endpoint, StdioEndpoint) else ("used", "address")
    return (
        f"MCP server {name!r} is not {verb}: {why}. Its {what}: {endpoint_description(settings.endpoint)}."
        f" To approve it: handrail mcp approve {name}"
    )


async def _consented(config: Config, name: str, settings: McpSettings, why: str, person: Person) -> bool:
    if person.consent is None or config.file is None or not await person.consent(name, settings.endpoint, why):
        return False
    # In a thread: it waits for other processes that write there.
    await asyncio.to_thread(person.approvals.approve, config.file, name, settings.endpoint, by=person.by)
    return True


def make_server(config: Config, name: str, settings: McpSettings, around: GroupContext, **others: Any) -> AppMcpServer:
    """A server, not yet connected; `others` are options of its ensemble that take the place of the usual ones.

    Raises:
        ConfigError: A variable that it needs is not set.
    """
    from handrail.mcp.client.ensemble import mcp_ensemble
    from handrail.mcp.client.server_questions import ApproverQuestionHandler

    endpoint = settings.resolved()
    lent = [] if settings.sampling is None else [open_model(config, settings.sampling)]
    person = around.person
    pins = None
    if config.file is not None:
        allow_new = frozenset({name}) if settings.new_tools == "allow" else frozenset[str]()
        pins = FilePins(person.approvals, config.file, {name: settings.endpoint}, allow_new=allow_new, tell=person.tell)
    options: dict[str, Any] = {
        "prefix": settings.prefix,
        "only": settings.only,
        "hints": settings.hints,
        "effect_keys": settings.effect_keys,
        "repeat_windows": settings.repeat_windows,
        "labels": settings.labels,
        "required": settings.required,
        "defaults": settings.defaults,
        "bounds": settings.bounds,
        "era": settings.era,
        "asking": ApproverQuestionHandler(around.approver, lent[0].model if lent else None, around.journal),
        "pins": pins,
        "sign_in": _sign_in(name, settings, person),
        "on_change": around.on_change,
    }
    if around.clients is not None:
        options |= {"relay": around.clients.relay, "on_notice": around.clients.on_notice}
    return AppMcpServer(name, settings, mcp_ensemble(name, endpoint, **options | others), lent)


def _sign_in(name: str, settings: McpSettings, person: Person) -> Any:
    """Signs in with what is kept. Nobody is sent to a browser in mid-work."""
    if not isinstance(settings.endpoint, HttpEndpoint) or settings.endpoint.oauth is None:
        return None
    from handrail.mcp.client.sign_in import SignIn

    def refuse(address: str) -> None:
        raise SignInFailed(name, f"it wants you to sign in; run: handrail mcp login {name}")

    return SignIn(store=person.tokens, show=refuse)


Make = Callable[["list[LLM]"], Ensemble]
"""Makes a group; the models that it opens are put into the list, for whoever closes the group."""


def standard_groups(config: Config) -> dict[str, tuple[Any, Make]]:
    """handrail's own groups, those that are asked for: of what and how each is made."""
    settings = config.standard
    models = None if settings.summarization is None else (config.default_model, dict(config.models))
    wanted: dict[str, tuple[Any, Make]] = {
        "io": (settings.io, lambda lent: _io(settings.io)),
        "probability": (settings.probability or None, lambda lent: _probability()),
        "summarization": (models and (settings.summarization, models), lambda lent: _summarization(config, lent)),
    }
    return {name: made for name, made in wanted.items() if made[0] is not None}


def _io(settings: Any) -> Ensemble:
    from handrail.library.io import io_ensemble

    return io_ensemble(settings)


def _probability() -> Ensemble:
    from handrail.library.probability import probability_ensemble

    return probability_ensemble()


def _summarization(config: Config, lent: list[LLM]) -> Ensemble:
    from handrail.library.summarization import summarization_ensemble

    wanted = config.standard.summarization or SummarizeSettings()

    def model() -> Model:
        if not lent:  # opened when it is first asked: most runs never do
            lent.append(open_model(config, wanted.model))
        return lent[0].model

    return summarization_ensemble(model, wanted.settings) if wanted.settings else summarization_ensemble(model)


async def close_all(parts: Iterable[Ensemble | AppMcpServer | ToolGroup]) -> None:
    """Closes all groups at once; an error of one does not keep the others open."""
    results = await asyncio.gather(*(each.close() for each in parts), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, HandrailError):
            raise result


async def _close_models(lent: list[LLM]) -> None:
    while lent:
        await lent.pop().aclose()


@dataclass(frozen=True, slots=True, eq=False)
class ToolGroup:
    """What a file brings, or handrail itself: the tools, and what they were made of."""

    made_of: Any
    item: Any
    """An ensemble or, of what is wanted by name, a tool."""
    lent: list[LLM] = field(default_factory=list)
    """Models that it has opened; they are closed with it."""

    async def close(self) -> None:
        try:
            if isinstance(self.item, Ensemble):
                await self.item.close()
        finally:
            await _close_models(self.lent)


def load_groups(config: Config, wanted: tuple[str, ...], before: Iterable[ToolGroup] = ()) -> tuple[ToolGroup, ...]:
    """Everything but servers. What is made of the same as `before` is the same.

    Raises:
        UsageError: Something wanted cannot be found, or tools are switched off.
        ConfigError: A file is wrong.
    """
    known = {group.made_of: group for group in before}
    if wanted:
        return tuple(before) or tuple(ToolGroup(object(), item) for item in files_of(config, wanted))
    if not config.llm.tools_enabled:
        return ()
    found = [known.get(made_of := (path, _texts(path))) or ToolGroup(made_of, None) for path in config.ensembles]
    if any(group.item is None for group in found):
        fresh = files_of(config)
        found = [
            group if group.item else ToolGroup(group.made_of, item) for group, item in zip(found, fresh, strict=True)
        ]
    for name, (settings, make) in standard_groups(config).items():
        lent: list[LLM] = []
        said = (name, repr(settings))
        found.append(known.get(said) or ToolGroup(said, make(lent), lent))
    return tuple(found)


def _texts(path: Path) -> tuple[bytes, ...]:
    return tuple(map(_text, watched(None, [path])))


def _text(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # why, is told where it is loaded
