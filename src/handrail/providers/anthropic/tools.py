"""Tools and the choice among them, as the Messages API takes them."""

from __future__ import annotations

from typing import Any, assert_never

from handrail.core.model import ModelRequest, NamedTool, ToolChoice, ToolOffer
from handrail.providers.anthropic.programs import program_tool
from handrail.providers.anthropic.search import SEARCH
from handrail.providers.anthropic.strict import Budget
from handrail.providers.codec import Known
from handrail.providers.names import NameMap, NameRule
from handrail.providers.offer import are_for_programs, are_searched, losses
from handrail.providers.pieces import all_known
from handrail.providers.projection import ANTHROPIC, project
from handrail.providers.remember import remembered

PROVIDER = "anthropic"
IDS = NameRule(r"[A-Za-z0-9_-]+", 64)
EPHEMERAL = {"type": "ephemeral"}
"""Marks the end of what the service caches: tools come first, then the system text, then the conversation."""
_THINKING = ("enabled", "adaptive", "between_tools")


@remembered
def encode_tools(
    offers: tuple[ToolOffer, ...], names: NameMap, strict: bool, cache: bool, programs: str = ""
) -> tuple[Known, tuple[str, ...]]:
    """The tools, and what the service cannot be told of them."""
    notices: list[str] = []
    tools: list[dict[str, Any]] = []
    budget = Budget() if strict else Budget(tools=0)
    for each in offers:
        projected = project(each.input_schema, ANTHROPIC)
        notices.extend(losses(each.name, projected.lost))
        tool: dict[str, Any] = {"name": names.to_wire(each.name), "input_schema": projected.schema}
        if each.description:
            tool["description"] = each.description
        if each.by_program:  # the service holds no program's calls to their schemas
            tool["allowed_callers"] = [programs]
        elif (left := budget.after(projected.schema)) is not None:
            budget, tool["strict"] = left, True
        if each.deferred:
            tool["defer_loading"] = True
        tools.append(tool)
    if are_searched(offers):
        tools.append(dict(SEARCH))  # last, where the mark for the cache goes, which no deferred tool may have
    if are_for_programs(offers):
        tools.append(program_tool(programs))
    if cache:
        tools[-1]["cache_control"] = EPHEMERAL
    return all_known(tools), tuple(notices)


def encode_choice(request: ModelRequest, choice: ToolChoice, names: NameMap) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The choice, and what is not enforced of it."""
    if are_for_programs(request.tools) and not request.parallel:
        notice = "several calls in one reply cannot be forbidden where programs call the tools"
        return _choice(choice, names, parallel=True), (notice,)
    if choice not in ("auto", "none") and _thinks(request):
        notice = "a call cannot be forced while the model thinks; tools are offered, not enforced"
        return _choice("auto", names, parallel=request.parallel), (notice,)
    return _choice(choice, names, parallel=request.parallel), ()


def _choice(choice: ToolChoice, names: NameMap, *, parallel: bool) -> dict[str, Any]:
    alone = {} if parallel else {"disable_parallel_tool_use": True}
    match choice:
        case "auto":
            return {"type": "auto", **alone}
        case "required":
            return {"type": "any", **alone}
        case "none":
            return {"type": "none"}
        case NamedTool(name=name):
            return {"type": "tool", "name": names.to_wire(name), **alone}
    assert_never(choice)


def _thinks(request: ModelRequest) -> bool:
    thinking = request.extra.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") in _THINKING
