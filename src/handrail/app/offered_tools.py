"""The tools that a node offers: as capabilities of its bus, and to the models of its gateways."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from msgspec.structs import replace

from handrail.app.app import App
from handrail.app.loaded_groups import Beside
from handrail.config.network import SERVICES
from handrail.config.values import STANDARD_SET, Config
from handrail.core.context import LOCAL, Context, Principal
from handrail.core.errors import UsageError
from handrail.core.invocation import Invocation
from handrail.core.redact import Secret
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import OWN, Caller, CallTerms
from handrail.node.bus.versions import version_text
from handrail.node.capability_bus import CapabilityBus
from handrail.node.chat.bound_tools import BoundCapability
from handrail.node.chat.builtin_tools import BUILTIN
from handrail.node.server.authentication import HERE
from handrail.node.tokens.admission import TokenAdmission
from handrail.node.tokens.token import parse_token
from handrail.tools.definition import Binding, ToolDefinition
from handrail.tools.registry import RegisteredTools
from handrail.tools.tool import Tool

logger = logging.getLogger(__name__)


class OfferedTools:
    """The tools of an app as capabilities of a bus, those that others may be given."""

    def __init__(self, bus: CapabilityBus, app: App) -> None:
        self._bus = bus
        self._app = app
        self._there: dict[Tool, tuple[str, tuple[int, int]]] = {}

    @property
    def names(self) -> frozenset[str]:
        """The names of the capabilities, as `sums.add@1.0`."""
        return frozenset(f"{name}@{version_text(version)}" for name, version in self._there.values())

    def renew(self) -> None:
        """Offer what runs that begin now may call, and nothing else.

        Raises:
            UsageError: A tool has the name of something else on the bus. All others are offered.
        """
        patterns = self._app.config.node.tools
        wanted = [
            tool
            for tool in self._app.tools
            if tool.definition.binding is None
            and tool.name != "read_output"
            and (patterns is None or any(fnmatchcase(name, each) for each in patterns for name in tool.names))
        ]
        for tool in [each for each in self._there if each not in wanted]:
            self._bus.unregister(*self._there.pop(tool))
        clash: UsageError | None = None
        for tool in wanted:
            if tool not in self._there:
                try:
                    descriptor = self._bus.register_tool(tool)
                except UsageError as error:
                    clash = error
                else:
                    self._there[tool] = (descriptor.name, descriptor.version)
        if clash is not None:
            raise clash

    def follow(self) -> None:
        """Renews the tools, as `renew` does, while the node runs. A mistake in a new file does not hold up the other
        changes."""
        try:
            self.renew()
        except UsageError as error:
            logger.error("a new tool is not offered to others: %s", error)


class GatewayToolAdmission:
    """Admission to the gateways, whose models call the tools of this node with no bus in between.

    There nobody holds the arguments to a token's values, and nobody counts: so a model is given only those tools of the
    node that its caller's token covers without either. What the built-in tools call, the bus admits as ever.
    """

    def __init__(self, admission: TokenAdmission, bus: CapabilityBus, offered: OfferedTools) -> None:
        self._admission = admission
        self._bus = bus
        self._offered = offered

    async def admit(
        self, caller: Caller, token: Secret | None, descriptor: CapabilityDescriptor, body: Mapping[str, Any]
    ) -> Caller:
        return await self._narrowed(await self._admission.admit(caller, token, descriptor, body))

    async def identify(self, caller: Caller, token: Secret | None) -> Caller:
        """The caller with the same rights, without taking that for a call.

        Raises:
            BusError: The token is not good, or not the caller's.
        """
        return await self._narrowed(await self._admission.identify(caller, token))

    async def _narrowed(self, known: Caller) -> Caller:
        if known.token is None:
            return known
        scope, own = parse_token(known.token).scope, self._offered.names
        there = {offer.descriptor.full_name for offer in await self._bus.discover()}
        can = Context(principal=known.principal)
        names = sorted(each for each in there if can.allows(each) and (each not in own or scope.is_bare(each)))
        return replace(known, principal=Principal(known.id, tuple(names)))


class BusBuiltinTools:
    """Makes them before there is a bus: it needs the journal, which is opened with the tools."""

    bus: CapabilityBus

    def beside(self, config: Config) -> Beside:
        """Those of the default set whose services there are, where no tool of the node has their name. As long as
        nobody chose the set, only those whose services the configuration names: a node is for its own tools first."""
        names = config.llm.tools_default_set if config.llm.tools_enabled else ()

        def beside(others: RegisteredTools) -> tuple[Tool, ...]:
            wanted = (BUILTIN[name] for name in names if name in BUILTIN and name not in others)
            return tuple(self._bound(each, each.binding) for each in wanted if _is_served(config, each.binding))

        return beside

    def _bound(self, definition: ToolDefinition, binding: Binding | None) -> Tool:
        assert binding is not None  # every built-in tool has one

        async def run(invocation: Invocation) -> Any:
            terms = _for_caller(invocation, binding)
            return await BoundCapability(self.bus, binding, terms, definition=definition).run(invocation)

        return Tool(definition, run, style="invocation")


def _is_served(config: Config, binding: Binding | None) -> bool:
    service = "" if binding is None else binding.capability.partition(".")[0]
    if config.llm.tools_default_set == STANDARD_SET and service not in config.services.named:
        return False
    return service not in SERVICES or config.services.has(service)


def _for_caller(invocation: Invocation, binding: Binding) -> CallTerms:
    """The rights of whoever called the tool. What let the tool be called lets its capability be."""
    context = invocation.context
    above = (*context.within, *(() if context.scopes is None else (context.scopes,)))
    return CallTerms(
        caller=_caller(context.principal),
        token=Secret(context.token) if context.token else None,
        deadline=context.deadline,
        depth=context.depth + 1,
        within=tuple((*scopes, binding.scope) for scopes in above),
    )


def _caller(principal: Principal) -> Caller:
    """How the bus knows a caller that an executor knows by this principal. Most callers it finds out itself."""
    if principal == LOCAL:
        return OWN
    return HERE if principal == HERE.principal else Caller(principal=principal)
