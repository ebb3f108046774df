"""A node of the network: the bus with everything that the configuration offers, and the doors to it.

The models of the gateways may use the node's tools and the built-in ones, which are bound to
capabilities of the bus; whatever they call, they call with the rights of whoever asked.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from handrail.app.app import LOOK, Adjust, AllowAll, App, AppAdditions, Ask, cancel_and_wait, open_app, reload_on_change
from handrail.app.offered_tools import BusBuiltinTools, GatewayToolAdmission, OfferedTools
from handrail.app.person import Person
from handrail.app.retention import retaining
from handrail.app.services import LentModels, ServiceMaker
from handrail.config.network import NodeSettings, ServiceSettings
from handrail.config.values import Config
from handrail.core.canonical import digest
from handrail.core.confirmation import Confirmation, Decision
from handrail.core.errors import BusError, HandrailError, UsageError
from handrail.core.ports import Embedder
from handrail.core.redact import Secret
from handrail.core.version import VERSION
from handrail.execute.confirm import DeferAll
from handrail.execute.rules import Rules
from handrail.journal.places import JournalPlace
from handrail.journal.reader import JournalReader
from handrail.journal.telemetry import Telemetry
from handrail.mcp.values import HttpEndpoint
from handrail.node.bus.descriptor import Trust
from handrail.node.bus.interfaces import Bus
from handrail.node.bus.request import Caller
from handrail.node.capability_bus import CapabilityBus
from handrail.node.chat.builtin_tools import BUILTIN
from handrail.node.server.authentication import caller_of
from handrail.node.tokens.admission import TokenAdmission
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.relay_bus import RelayBus
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.signatures import Authenticator
from handrail.node.tokens.token import issue
from handrail.node.tokens.token_store import TokenStore

if TYPE_CHECKING:
    from handrail.node.gateways.gateway import Gateway
    from handrail.node.nats.door import NatsDoor
    from handrail.node.nats.link import NatsLink
    from handrail.node.server.node import NodeServer

_NEXT_START = "What changed under [node] or [services], but for `tools`, holds from the next start on."
WORDLLAMA = "wordllama"
"""The name by which clients ask for the node's embedder."""
SESSION_TTL = 24 * 3_600
"""Seconds that the token of whoever starts a node is good for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkNode:
    """`open_node` makes one."""

    app: App
    bus: CapabilityBus
    identity: Identity
    tokens: TokenStore
    admission: TokenAdmission
    authenticator: Authenticator
    models: LentModels
    offered: OfferedTools
    link: NatsLink | None
    """To the NATS server, where one is configured."""
    page: bool = False
    """Whether it has a page for people."""
    on_drain: Callable[[], None] = lambda: None
    """Called when it takes no more calls."""
    session_holders: set[str] = field(default_factory=set)
    """The ids of those who hold a token of whoever started it."""

    @property
    def config(self) -> Config:
        return self.app.config

    def session_token(self, *capabilities: str) -> Secret:
        """A token for whoever started the node, for everything or for some of it. Its holder is `at_machine`."""
        token, text = issue(
            self.identity,
            self.tokens,
            Scope.of(capabilities or ("*",)),
            audience=self.config.node.community,
            ttl=SESSION_TTL,
            trust="trusted",
            renews=self._session(capabilities),
        )
        self.session_holders.add(token.holder)
        return text

    def _session(self, capabilities: tuple[str, ...]) -> str | None:
        """The id of that token: the same at each start, unless it was revoked. Else who starts the node again would be
        somebody else, for whom a payment with the same key is a new one.

        Replicas have a state in common and each its own machine: there each start has a token of its own.
        """
        if self.tokens.is_remote:
            return None
        kind = digest([self.identity.node_id, *sorted(capabilities)]).rpartition(":")[2][:16]
        return next(id for n in count() if not self.tokens.any_revoked([id := f"session-{kind}.{n}"]))

    def at_machine(self, caller: Caller) -> bool:
        """Whether a caller is the person who started this node. A token that is made of theirs is another one."""
        return caller.id in self.session_holders

    async def reload(self) -> str:
        """Read the files of the configuration again; what came of it, for whoever asked for that."""
        before = _lasting(self.app.config)
        try:
            await self.app.reload()
        except HandrailError as error:
            return f"{error}; until it is mended, everything stays as it was"
        told = "The configuration was reloaded."
        return told if _lasting(self.app.config) == before else f"{told} {_NEXT_START}"

    def server(self) -> NodeServer:
        """What is served over HTTP."""
        from handrail.node.server.node import NodeFacts, NodeServer

        node = self.config.node
        facts = NodeFacts(name=node.name, node_id=self.identity.node_id, community=node.community, version=VERSION)
        server = NodeServer(
            bus=self.bus,
            node=facts,
            check=self.authenticator,
            identify=self.admission.identify,
            token_required=node.token_required,
            hosts=node.hosts,
            origins=node.origins,
            recording=self.app.journal.check,
            shared_record=self.app.state.database is not None,
            telemetry=lambda: telemetry_of(self.app.journal.path),
            sign=self.identity.sign,
            page=self.page,
        )
        server.life.on_drain.append(self.on_drain)
        if self.config.approvals.address is not None:
            from handrail.node.server.approval_pages import approval_routes

            server = replace(server, pages=approval_routes(self.app.journal.path, self.app.state.approval_links))
        if not self.config.services.has("llm"):
            return server
        from handrail.node.gateways.openapi import PATHS

        return replace(server, gateways=tuple(self._gateway(server).routes()), described=PATHS)

    def door(self) -> NatsDoor:
        """What is served on NATS.

        Raises:
            UsageError: No NATS server is configured.
        """
        from handrail.node.nats.door import NatsDoor

        if self.link is None:
            raise UsageError('no NATS server is named; write nats = "nats://HOST:4222" under [node], or use --nats')
        node = self.config.node
        journal = self.app.journal
        shared = "" if self.app.state.database is None else hashlib.sha256(journal.verifier_key.encode()).hexdigest()
        return NatsDoor(self.bus, self.link, community=node.community, authenticator=self.authenticator, record=shared)

    def _gateway(self, server: NodeServer) -> Gateway:
        from handrail.node.gateways.gateway import Gateway, GatewayEmbedder, GatewayModel

        node = self.config.node

        def model(name: str | None) -> GatewayModel:
            llm = self.models.llm(name)
            given = () if node.tools is None else ((*node.tools, *BUILTIN),)
            return GatewayModel(
                name=name or self.models.names[0], model=llm.model, defaults=llm.defaults, valid=(*llm.valid, *given)
            )

        async def caller(request: Any) -> tuple[Caller, Secret | None]:
            return caller_of(server, request.headers)

        admission = GatewayToolAdmission(self.admission, self.bus, self.offered)
        return Gateway(
            models=model,
            names=lambda: self.models.names,
            executor=self.app.executor,
            caller_of=caller,
            admission=admission,
            identify=admission.identify,
            limits=self.config.limits,
            offering=self.config.offering,
            may_answer=self.at_machine,
            mcp_servers=self._mcp_servers,
            embedder=GatewayEmbedder(WORDLLAMA, _embedder),
            life=server.life,
        )

    def _mcp_servers(self) -> dict[str, dict[str, str]]:
        """The MCP servers in use that have an address, each with the names of its tools there and here."""
        found: dict[str, dict[str, str]] = {}
        for server in self.app.servers.values():
            if isinstance(server.ensemble.endpoint, HttpEndpoint):
                tools = {name: server.ensemble.offered(name) for name in server.ensemble.remote}
                names = {name: tool.scoped_name for name, tool in tools.items() if tool is not None}
                found.setdefault(server.ensemble.endpoint.url, {}).update(names)
        return found


@asynccontextmanager
async def open_node(
    config: Config,
    journal: Path,
    wanted: AppAdditions = AppAdditions(),
    person: Person | None = None,
    *,
    ask: Ask = lambda tools: DeferAll(),
    look: float | None = LOOK,
    adjust: Adjust = lambda config: config,
    environ: Mapping[str, str] = os.environ,
) -> AsyncIterator[NetworkNode]:
    """Bus, services, tools and links to other nodes for as long as the block lasts. Nothing listens yet.

    Raises:
        UsageError: Something in the configuration is not available.
        McpError: An MCP server that is required is not available.
        JournalError: The journal cannot be opened.
    """
    person = person or Person()
    on_bus = BusBuiltinTools()
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(
            open_app(config, journal, wanted, ask, person, beside=on_bus.beside(config), adjust=adjust)
        )
        identity = await asyncio.to_thread(app.state.identity, config)
        store = await asyncio.to_thread(app.state.tokens)
        stack.callback(store.close)
        admission = admission_of(config.node, identity.node_id, store)
        bus = on_bus.bus = _bus(config, app, identity, admission)
        models = LentModels(config)
        stack.push_async_callback(models.aclose)
        await stack.enter_async_context(bus)
        makers = ServiceMaker(config, bus, state=app.state, models=models, stack=stack, environ=environ)
        for service in makers.all(identity, store):
            bus.register_service(service)
        offered = OfferedTools(bus, app)
        offered.renew()
        app.listeners.append(offered.follow)
        if look is not None:
            stack.push_async_callback(
                cancel_and_wait, asyncio.create_task(reload_on_change(app, person, look, _lasting, _NEXT_START))
            )
        link = _link(config, stack)
        await _connect(config, bus, identity, person, stack, environ, link)
        kept = retaining(app.journal.path, app.state, lambda: app.config.retention, config.services.folder)
        await stack.enter_async_context(kept)
        yield NetworkNode(
            app=app,
            bus=bus,
            identity=identity,
            tokens=store,
            admission=admission,
            authenticator=Authenticator(
                community=config.node.community,
                node_id=identity.node_id,
                known=lambda node: node in config.node.trust or _knows_holder(store, node),
            ),
            models=models,
            offered=offered,
            link=link,
        )


def _knows_holder(store: TokenStore, node: str) -> bool:
    """Whether a signer has a token of this node. It is asked in the event loop, so no server is asked: with a shared
    state the calls of holders are remembered with those of strangers."""
    return not store.is_remote and store.knows_holder(node)


def _bus(config: Config, app: App, identity: Identity, admission: TokenAdmission) -> CapabilityBus:
    return CapabilityBus(
        node_id=identity.node_id,
        admission=admission,
        journal=app.journal,
        policy=config.policy,
        approver=_ScopeApprover(app),
        tracer=app.executor.tracer,
        max_depth=min(config.policy.max_depth, config.limits.iterations),
    )


class _ScopeApprover:
    """Approves by the scopes of the caller: on the bus a side effect needs no approval of its own. What a rule denies
    is denied here too."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def decide(self, question: Confirmation) -> Decision:
        return await Rules(self._app.rules, AllowAll("the scope of the caller")).decide(question)


def admission_of(settings: NodeSettings, node_id: str, store: TokenStore) -> TokenAdmission:
    """The admission of a node: which callers it trusts, and which issuers' tokens it accepts."""
    return TokenAdmission(
        node_id=node_id,
        store=store,
        community=settings.community,
        directory=cast(Mapping[str, Trust], settings.trust),
        federation={each.id: Scope.of(each.can) for each in settings.issuers.values() if each.can},
    )


def _lasting(config: Config) -> tuple[NodeSettings, ServiceSettings]:
    """What only a new start can change."""
    return replace(config.node, tools=None), config.services


def _link(config: Config, stack: AsyncExitStack) -> NatsLink | None:
    node = config.node
    if node.nats is None:
        return None
    from handrail.node.nats.link import NatsLink
    from handrail.node.nats.tls import tls_options

    options = tls_options(node.nats_cert, node.nats_key, node.nats_ca)
    link = NatsLink(node.nats, name=f"handrail {node.name}", options=options)
    stack.push_async_callback(link.aclose)
    return link


async def _connect(
    config: Config,
    bus: CapabilityBus,
    identity: Identity,
    person: Person,
    stack: AsyncExitStack,
    environ: Mapping[str, str],
    link: NatsLink | None,
) -> None:
    """Let the capabilities of other nodes join. One that is not there joins when it comes."""
    remotes: list[tuple[str, str, Bus, bool]] = []
    for name, peer in config.node.peers.items():
        from handrail.node.http.bus import HttpBus

        remote = HttpBus(peer.url, token=peer.secret(environ), identity=identity)
        stack.push_async_callback(remote.aclose)
        remotes.append((name, f"node {name!r}", RelayBus(remote, identity), peer.believed))
    if link is not None:
        from handrail.node.nats.bus import NatsBus

        nats = NatsBus(link, community=config.node.community, identity=identity)
        stack.push_async_callback(nats.aclose)
        remotes.append(("NATS", "NATS", RelayBus(nats, identity), False))

    async def join(name: str, called: str, remote: Bus, believed: bool) -> None:
        try:
            await bus.connect(remote, keep=True, name=name, believed=believed)
        except BusError as error:
            person.tell(f"{called} is not there ({error.code}); what it offers joins when it comes")

    await asyncio.gather(*(join(*each) for each in remotes))
    for _, _, joined, _ in remotes:
        stack.push_async_callback(bus.disconnect, joined)


def _embedder() -> Embedder:
    from handrail.sessions.store.embedding import WordLlamaEmbedder  # it loads 16 MB

    return WordLlamaEmbedder()


def telemetry_of(journal: JournalPlace) -> Any:
    """Which tools were offered, picked and failed, of the last events in the record."""
    with JournalReader(journal) as reader:
        telemetry = Telemetry.of(reader.recent())
    return msgspec.to_builtins(telemetry.tools())
