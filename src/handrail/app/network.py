"""A node of the network: the bus with everything that the configuration offers on it, and the doors to it.

The models of the gateways may use the node's tools and the built-in ones, which are bound to
capabilities of the bus; whatever they call, they call with the rights of whoever asked.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from handrail.app.keeping import end, keep_up
from handrail.app.offered import ForModels, Offered
from handrail.app.opened import Adjust, AllowAll, App, Wanted, open_app
from handrail.app.person import Person
from handrail.app.services import Makers, OpenModels
from handrail.app.serving import LOOK
from handrail.bus.descriptor import Trust
from handrail.bus.port import Bus, Calling
from handrail.bus.request import OWN, Caller
from handrail.bus.tokens.admission import TokenAdmission
from handrail.bus.tokens.identity import Identity
from handrail.bus.tokens.relay import RelayBus
from handrail.bus.tokens.scope import Scope
from handrail.bus.tokens.signatures import Authenticator
from handrail.bus.tokens.store import TokenStore
from handrail.bus.tokens.token import issue
from handrail.config.network import NodeSettings, ServiceSettings
from handrail.config.values import Config
from handrail.core.about import VERSION
from handrail.core.context import LOCAL, Principal
from handrail.core.errors import BusError, UsageError
from handrail.core.invocation import Invocation
from handrail.core.redact import Secret
from handrail.execute.rules import Rules
from handrail.faces.bound import BoundCapability
from handrail.faces.builtin import BUILTIN
from handrail.faces.bus import CapabilityBus
from handrail.server.door import HERE
from handrail.tools.definition import Binding, ToolDefinition
from handrail.tools.registry import RegisteredTools
from handrail.tools.tool import Tool

if TYPE_CHECKING:
    from handrail.bus.nats.door import NatsDoor
    from handrail.bus.nats.link import Link
    from handrail.server.gateways.gateway import Gateway
    from handrail.server.node import NodeServer

logger = logging.getLogger(__name__)

KEY, TOKENS = "identity.key", "tokens.db"
"""Beside the journal."""
_SERVICE = {
    # the first part of a capability's name, and the service that has it
    "rag": "rag",
    "trans": "trans",
    "market": "market",
    "chat": "chat",
    "img": "img",
    "stt": "stt",
}
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
    models: OpenModels
    offered: Offered
    link: Link | None
    """To the NATS server, where one is configured."""

    @property
    def config(self) -> Config:
        return self.app.config

    def session_token(self, *capabilities: str) -> Secret:
        """A token for whoever started the node, for everything or for some of it."""
        _, text = issue(
            self.identity,
            self.tokens,
            Scope.of(capabilities or ("*",)),
            audience=self.config.node.community,
            ttl=SESSION_TTL,
            trust="trusted",
        )
        return text

    def server(self) -> NodeServer:
        """What is served over HTTP."""
        from handrail.server.node import NodeFacts, NodeServer

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
            telemetry=lambda: telemetry_of(self.app.journal.path),
            sign=self.identity.sign,
        )
        if not self.config.services.has("llm"):
            return server
        from handrail.server.gateways.openapi import PATHS

        return replace(server, gateways=tuple(self._gateway(server).routes()), described=PATHS)

    def door(self) -> NatsDoor:
        """What is served on NATS.

        Raises:
            UsageError: No NATS server is configured.
        """
        from handrail.bus.nats.door import NatsDoor

        if self.link is None:
            raise UsageError('no NATS server is named; write nats = "nats://HOST:4222" under [node], or use --nats')
        node = self.config.node
        return NatsDoor(self.bus, self.link, community=node.community, authenticator=self.authenticator)

    def _gateway(self, server: NodeServer) -> Gateway:
        from handrail.server.door import caller_of
        from handrail.server.gateways.gateway import Gateway, GatewayModel

        node = self.config.node

        def model(name: str | None) -> GatewayModel:
            llm = self.models.llm(name)
            given = () if node.tools is None else ((*node.tools, *BUILTIN),)
            return GatewayModel(
                name=name or self.models.names[0], model=llm.model, defaults=llm.defaults, valid=(*llm.valid, *given)
            )

        async def caller(request: Any) -> tuple[Caller, Secret | None]:
            return caller_of(server, request.headers)

        return Gateway(
            models=model,
            names=lambda: self.models.names,
            executor=self.app.executor,
            caller_of=caller,
            admission=ForModels(self.admission, self.bus, self.offered),
            identify=self.admission.identify,
            limits=self.config.limits,
            offering=self.config.offering,
            life=server.life,
        )


@asynccontextmanager
async def open_node(
    config: Config,
    journal: Path,
    wanted: Wanted = Wanted(),
    person: Person | None = None,
    *,
    look: float | None = LOOK,
    adjust: Adjust = lambda config: config,
    environ: Mapping[str, str] = os.environ,
) -> AsyncIterator[NetworkNode]:
    """Bus, services, tools and links to other nodes for as long as the block lasts. Nothing listens yet.

    Raises:
        UsageError: Something in the configuration cannot be had.
        McpError: An MCP server that is required cannot be had.
        JournalError: The journal cannot be opened.
    """
    person = person or Person()
    settings, held = config.node, _Held()
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(
            open_app(config, journal, wanted, person=person, beside=held.builtin(config), adjust=adjust)
        )
        identity = Identity.load_or_create(settings.identity or journal.parent / KEY)
        store = TokenStore(journal.parent / TOKENS)
        stack.callback(store.close)
        admission = admission_of(settings, identity.node_id, store)
        bus = CapabilityBus(
            node_id=identity.node_id,
            admission=admission,
            journal=app.journal,
            policy=config.policy,
            approver=Rules(config.rules, AllowAll("the scope of the caller")),
            tracer=app.executor.tracer,
            max_depth=min(config.policy.max_depth, config.limits.iterations),
        )
        held.bus = bus
        models = OpenModels(config)
        stack.push_async_callback(models.aclose)
        await stack.enter_async_context(bus)
        makers = Makers(config, bus, folder=journal.parent, models=models, stack=stack, environ=environ)
        for service in makers.all(identity, store):
            bus.register_service(service)
        offered = Offered(bus, app)
        offered.renew()
        app.listeners.append(offered.follow)
        if look is not None:
            told = "What changed under [node] or [services], but for `tools`, holds from the next start on."
            stack.push_async_callback(end, asyncio.create_task(keep_up(app, person, look, _lasting, told)))
        link = _link(config, stack)
        await _connect(config, bus, identity, person, stack, environ, link)
        yield NetworkNode(
            app=app,
            bus=bus,
            identity=identity,
            tokens=store,
            admission=admission,
            authenticator=Authenticator(community=settings.community),
            models=models,
            offered=offered,
            link=link,
        )


def admission_of(settings: NodeSettings, node_id: str, store: TokenStore) -> TokenAdmission:
    """Whom a node takes for what, and whose tokens are good there."""
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


def _link(config: Config, stack: AsyncExitStack) -> Link | None:
    if config.node.nats is None:
        return None
    from handrail.bus.nats.link import Link

    link = Link(config.node.nats, name=f"handrail {config.node.name}")
    stack.push_async_callback(link.aclose)
    return link


async def _connect(
    config: Config,
    bus: CapabilityBus,
    identity: Identity,
    person: Person,
    stack: AsyncExitStack,
    environ: Mapping[str, str],
    link: Link | None,
) -> None:
    """Let the capabilities of other nodes join. One that is not there joins when it comes."""
    remotes: dict[str, Bus] = {}
    for name, peer in config.node.peers.items():
        from handrail.bus.http.bus import HttpBus

        remote = HttpBus(peer.url, token=peer.secret(environ), identity=identity)
        stack.push_async_callback(remote.aclose)
        remotes[f"node {name!r}"] = RelayBus(remote, identity)
    if link is not None:
        from handrail.bus.nats.bus import NatsBus

        nats = NatsBus(link, community=config.node.community, identity=identity)
        stack.push_async_callback(nats.aclose)
        remotes["NATS"] = RelayBus(nats, identity)

    async def join(name: str, remote: Bus) -> None:
        try:
            await bus.connect(remote, keep=True)
        except BusError as error:
            person.tell(f"{name} is not there ({error.code}); what it offers joins when it comes")

    await asyncio.gather(*(join(name, remote) for name, remote in remotes.items()))
    for joined in remotes.values():
        stack.push_async_callback(bus.disconnect, joined)


class _Held:
    """The bus, for tools that are made before it is."""

    bus: CapabilityBus

    def builtin(self, config: Config) -> Any:
        """The built-in tools of the default set whose services there are, where no tool of the node has their name."""
        names = config.llm.tools_default_set if config.llm.tools_enabled else ()

        def beside(others: RegisteredTools) -> tuple[Tool, ...]:
            wanted = (BUILTIN[name] for name in names if name in BUILTIN and name not in others)
            return tuple(self._bound(each, each.binding) for each in wanted if _is_served(config, each.binding))

        return beside

    def _bound(self, definition: ToolDefinition, binding: Binding | None) -> Tool:
        assert binding is not None  # every built-in tool has one

        async def run(invocation: Invocation) -> Any:
            return await BoundCapability(self.bus, binding, _for_caller(invocation, binding)).run(invocation)

        return Tool(definition, run, style="invocation")


def _is_served(config: Config, binding: Binding | None) -> bool:
    service = None if binding is None else _SERVICE.get(binding.capability.partition(".")[0])
    return service is None or config.services.has(service)


def _for_caller(invocation: Invocation, binding: Binding) -> Calling:
    """The rights of whoever called the tool. What let the tool be called lets its capability be."""
    context = invocation.context
    above = (*context.within, *(() if context.scopes is None else (context.scopes,)))
    return {
        "caller": _caller(context.principal),
        "token": context.token,
        "deadline": context.deadline,
        "depth": context.depth + 1,
        "within": tuple((*scopes, binding.scope) for scopes in above),
    }


def _caller(principal: Principal) -> Caller:
    """How the bus knows whoever an executor knows by this principal; of most, it finds out itself."""
    if principal == LOCAL:
        return OWN
    return HERE if principal == HERE.principal else Caller(principal=principal)


def telemetry_of(journal: Path) -> Any:
    """Which tools were offered, picked and failed, of the last events in the record."""
    from handrail.proof.read import Reader
    from handrail.proof.telemetry import Telemetry

    with Reader(journal) as reader:
        telemetry = Telemetry.of(reader.recent())
    return msgspec.to_builtins(telemetry.tools())
