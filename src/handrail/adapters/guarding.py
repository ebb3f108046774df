"""`guard`: the tools of a framework, with everything that the executor does around a call."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack, overload

from handrail.adapters.guarded_calls import GuardedCalls, GuardOptions
from handrail.core.errors import UsageError

if TYPE_CHECKING:
    from pydantic_ai.toolsets import AbstractToolset


class HasMcpServers(Protocol):
    """The options of the Claude Agent SDK, said so that type checkers know them where it is not installed."""

    mcp_servers: Any


T = TypeVar("T")
D = TypeVar("D")
G = TypeVar("G", bound=HasMcpServers)

_ADAPTERS = {
    "pydantic_ai": "pydantic_ai",
    "langchain_core": "langchain",
    "agents": "openai_agents",
    "agent_framework": "agent_framework",
    "claude_agent_sdk": "claude_agent",
}
"""The module here that guards the tools of a package."""


@overload
def guard(tools: Iterable[T], **options: Unpack[GuardOptions]) -> list[T]: ...
@overload
def guard(tools: G, **options: Unpack[GuardOptions]) -> G: ...
@overload
def guard(tools: AbstractToolset[D], **options: Unpack[GuardOptions]) -> AbstractToolset[D]: ...
def guard(tools: Any, **options: Unpack[GuardOptions]) -> Any:
    """Return the same tools for the same framework; each call is checked, approved, limited and recorded, and an effect
    that was started is not started again, whichever process died.

    Args:
        tools: A toolset of pydantic-ai, a list of tools of LangChain or openai-agents, or the `ClaudeAgentOptions`
            whose in-process servers have the tools. An agent of agent-framework takes `GuardFunctionMiddleware`
            instead.
        journal: An open journal, or the file of one. What happens once, happens once in it.
        rules: A person's decisions in advance, as `"allow pay to=ada"`. What no rule covers goes to `approver`; without
            one, to the framework, by its own way to stop for a person.
        reads: Names of tools without side effects, as `"get_*"`. Any other tool counts as having some.
        options: How a tool is treated, by its name, as `{"pay": {"effect_key": ("order",), "timeout": 5}}`.
        owner: Who asks, or a function that finds it in what the framework tells a tool. Equal effects of one owner
            are found across conversations; without it, within a conversation.
        run: The id of the conversation, or a function that finds it, where the framework's own will not do.
        policy: Limits for all of the tools.
        approver: Who is asked where no rule decides.

    Raises:
        UsageError: These are no tools of a framework that is known here.
    """
    calls = GuardedCalls(**options)
    given = list(tools) if isinstance(tools, Iterable) else tools
    for each in given if isinstance(given, list) else [given]:
        adapter = _adapter_of(each)
    if not given:
        return []
    return adapter.guarded(given, calls)


def _adapter_of(tool: Any) -> Any:
    for base in type(tool).__mro__:
        if (name := _ADAPTERS.get(base.__module__.partition(".")[0])) is not None:
            return import_module(f"handrail.adapters.{name}")
    raise UsageError(
        f"guard() takes tools of pydantic-ai, LangChain and openai-agents, and ClaudeAgentOptions; not {tool!r}"
    )
