"""From what is asked to a run: which tools may be called, with what settings, and from where it goes on."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Set as AbstractSet
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.context import Context
from handrail.core.errors import BusError
from handrail.core.messages import Conversation, InvocationMessage
from handrail.core.model_request import ModelRequest, NamedTool
from handrail.core.ports import text_model_of
from handrail.execute.executor import Executor
from handrail.node.bus.request import Caller
from handrail.node.capability_tools import capability_name
from handrail.node.gateways.gateway import Gateway, GatewayModel
from handrail.node.gateways.request import GatewayRequest, NamedMcpServer
from handrail.node.gateways.request_parsing import refuse_field
from handrail.node.gateways.resumed_runs import ResumedRun
from handrail.node.gateways.wire import AnswerWriter, GatewayWire
from handrail.run.offering import ALWAYS_VALID
from handrail.run.runner import Runner

_GIVEN = ("max_tokens", "temperature", "top_p", "seed", "response_schema")
_PORTS = {"http": 80, "https": 443}


class _ChosenTools(Struct, frozen=True):
    """What the client chose from the servers that it named, by the names of the node's tools."""

    wanted: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPlan:
    """Everything that an answer needs, checked."""

    id: str
    """The id of the answer that the client sees."""
    asked: GatewayRequest
    wire: GatewayWire
    runner: Runner
    executor: Executor
    context: Context
    taken: ResumedRun
    writer: AnswerWriter
    may_call: bool
    """Whether there is any tool that the model may call, of the node or of the client."""


def runner_for(gateway: Gateway, asked: GatewayRequest, model: GatewayModel, caller: Caller) -> Runner:
    """The runner that answers a request.

    Raises:
        BusError: The tools of the client and of the node cannot be offered together.
    """
    chosen = choose_server_tools(asked.mcp_servers, gateway.mcp_servers()) if asked.mcp_servers else _ChosenTools()
    runner = Runner(
        model.model,
        gateway.executor,
        gateway.limits,
        on_wait=asked.ours.confirm,
        defaults=_settings(model.defaults, asked.settings),
        offering=gateway.offering,
        valid=(*model.valid, *_valid(asked, caller, chosen), *_without(gateway.executor, chosen)),
        own_ids=True,
        new_id=gateway.new_id,
    )
    _check_names(asked, runner.may_call)
    if chosen.wanted:
        callable_here = {tool.scoped_name for tool in gateway.executor.tools if tool.name in runner.may_call}
        _check_callable(asked.mcp_servers, chosen, frozenset(callable_here))
    return runner


def model_for(asked: GatewayRequest, model: GatewayModel) -> GatewayModel:
    """The model in the form that the request takes.

    Raises:
        BusError: A text is to be continued, and the model takes conversations only.
    """
    if not asked.continues:
        return model
    found = text_model_of(model.model)
    if found is None:
        refuse_field("model", f"{model.name!r} takes conversations and continues no text; use /v1/chat/completions")
    return replace(model, model=found, defaults=replace(model.defaults, extra={}))


def with_tool_scopes(caller: Caller, executor: Executor) -> Caller:
    """The caller with its rights spelt for an executor. Tokens name capabilities: what covers a tool's, covers it."""
    scopes = caller.principal.scopes
    if scopes is None:
        return caller
    token = Context(principal=caller.principal)
    own = (tool for tool in executor.tools if tool.definition.binding is None)
    covered = (tool.scoped_name for tool in own if token.allows(f"{capability_name(tool)}@1.0"))
    principal = replace(caller.principal, scopes=(*scopes, *covered, *ALWAYS_VALID))
    return replace(caller, principal=principal)


def covers_calls(
    caller: Caller, executor: Executor, conversation: Conversation, client_calls: Container[str] = ()
) -> bool:
    """Whether a caller may call every tool of the node that a conversation has calls of, and so may see what came of
    them. `client_calls` are the ids of calls of a client's own tools, which may have the name of one of the node."""
    calls = (message.call for message in conversation.messages if isinstance(message, InvocationMessage))
    return covers_tools(caller, executor, {call.name for call in calls if call.id not in client_calls})


def covers_tools(caller: Caller, executor: Executor, called: AbstractSet[str]) -> bool:
    """Whether a caller may call all of these that are tools of the node."""
    rights = Context(principal=caller.principal)
    return all(rights.allows(*tool.names) for tool in executor.tools if called & {tool.name, tool.scoped_name})


def _settings(defaults: ModelRequest, asked: ModelRequest) -> ModelRequest:
    """What the client says, and where it says nothing what the node does."""
    said = {name: value for name in _GIVEN if (value := getattr(asked, name)) is not None}
    return replace(defaults, **said, stop=asked.stop or defaults.stop, parallel=asked.parallel and defaults.parallel)


def _without(executor: Executor, chosen: _ChosenTools) -> tuple[tuple[str, ...], ...]:
    """Every tool but those of a named MCP server that the client did not choose."""
    if not chosen.left_out:
        return ()
    return (tuple(name for tool in executor.tools if (name := tool.scoped_name) not in chosen.left_out),)


def _valid(asked: GatewayRequest, caller: Caller, chosen: _ChosenTools) -> tuple[tuple[str, ...], ...]:
    """The node's tools that may be called: by the token, by what the client chose, by the choice of this request."""
    lists: list[tuple[str, ...]] = []
    if caller.principal.scopes is not None:
        lists.append(caller.principal.scopes)
    match asked.ours.tools:
        case "none":
            lists.append(tuple(chosen.wanted))
        case tuple(names):
            lists.append((*names, *chosen.wanted))
    if asked.only is not None:
        lists.append(asked.only)
    return tuple(lists)


def _check_names(asked: GatewayRequest, ours: frozenset[str]) -> None:
    theirs = [tool.name for tool in asked.tools]
    for at, name in enumerate(theirs):
        if name in ours:
            refuse_field(
                f"tools[{at}]",
                f"this node has a tool {name!r} too; rename yours, or leave ours out with handrail.tools",
            )
    chosen = asked.choice
    if isinstance(chosen, NamedTool) and chosen.name not in ours and chosen.name not in theirs:
        refuse_field("tool_choice", f"{chosen.name[:40]!r} is not among the tools")


def choose_server_tools(named: Iterable[NamedMcpServer], servers: Mapping[str, Mapping[str, str]]) -> _ChosenTools:
    """The tools that a client wants, and does not want, of the MCP servers that its request names.

    A node connects to no address that a client sends. A server that the node's configuration has, and that was
    approved, is in use already: naming it chooses among its tools. Any other is refused.

    Raises:
        BusError: The node does not use a server at that address, or the server has no tool of that name.
    """
    known = {_normal(url): tools for url, tools in servers.items()}
    wanted: set[str] = set()
    everything: set[str] = set()
    for server in named:
        tools = known.get(_normal(server.url))
        if tools is None:
            refuse_field(
                server.place,
                "this node does not use an MCP server at this address, and connects to none that a request names;"
                " whoever runs the node can add it under [mcp] and approve it with `handrail mcp approve`",
            )
        strange = sorted(((server.allowed or frozenset()) | server.left_out) - set(tools))
        if strange:
            refuse_field(server.place, f"the MCP server there offers no tool {strange[0][:60]!r} to this node")
        everything |= set(tools.values())
        wanted |= {
            name
            for remote, name in tools.items()
            if (server.allowed is None or remote in server.allowed) and remote not in server.left_out
        }
    return _ChosenTools(frozenset(wanted), frozenset(everything - wanted))


def _check_callable(named: Iterable[NamedMcpServer], chosen: _ChosenTools, may_call: frozenset[str]) -> None:
    if chosen.wanted and not chosen.wanted & may_call:
        place = next(iter(named)).place
        words = f"{place}: none of the tools of this MCP server may be called here with this token"
        raise BusError("token_scope_insufficient", words, outcome="forbidden", param=place)


def _normal(url: str) -> Any:
    """What is the same for two spellings of one address."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return url
    return parts.scheme, parts.hostname, port, parts.path.rstrip("/"), parts.query
