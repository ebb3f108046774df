"""The built-in tools of a node: bound to its own bus, and called with the rights of whoever calls them."""

from __future__ import annotations

from typing import Any

from handrail.app.loaded_groups import Beside
from handrail.config.network import SERVICES
from handrail.config.values import Config
from handrail.core.context import LOCAL, Principal
from handrail.core.invocation import Invocation
from handrail.core.redact import Secret
from handrail.node.bus.request import OWN, Caller, CallTerms
from handrail.node.capability_bus import CapabilityBus
from handrail.node.chat.bound_tools import BoundCapability
from handrail.node.chat.builtin_tools import BUILTIN
from handrail.node.server.authentication import HERE
from handrail.tools.definition import Binding, ToolDefinition
from handrail.tools.registry import RegisteredTools
from handrail.tools.tool import Tool


class BusBuiltinTools:
    """Makes them before there is a bus: it needs the journal, which is opened with the tools."""

    bus: CapabilityBus

    def beside(self, config: Config) -> Beside:
        """Those of the default set whose services there are, where no tool of the node has their name."""
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
    service = "" if binding is None else binding.capability.partition(".")[0]
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
    """How the bus knows whoever an executor knows by this principal; of most, it finds out itself."""
    if principal == LOCAL:
        return OWN
    return HERE if principal == HERE.principal else Caller(principal=principal)
