"""Tools and the choice among them, as the Messages API takes them."""

from __future__ import annotations

from typing import Any, assert_never

from handrail.core.model import ModelRequest, NamedTool, ToolChoice
from handrail.providers.anthropic.strict import Budget
from handrail.providers.names import NameMap, NameRule
from handrail.providers.offer import Offered, losses
from handrail.providers.projection import ANTHROPIC, project

PROVIDER = "anthropic"
IDS = NameRule(r"[A-Za-z0-9_-]+", 64)
THINKING = ("enabled", "adaptive", "between_tools")


def encode_tools(
    request: ModelRequest, offer: Offered, names: NameMap, *, strict: bool
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields of the body that speak of tools, and what they cannot say."""
    if not offer.tools:
        return {}, ()
    notices: list[str] = []
    tools: list[dict[str, Any]] = []
    budget = Budget() if strict else Budget(tools=0)
    for each in offer.tools:
        projected = project(each.input_schema, ANTHROPIC)
        notices.extend(losses(each.name, projected.lost))
        tool: dict[str, Any] = {"name": names.to_wire(each.name), "input_schema": projected.schema}
        if each.description:
            tool["description"] = each.description
        if (left := budget.after(projected.schema)) is not None:
            budget, tool["strict"] = left, True
        tools.append(tool)
    return {"tools": tools, "tool_choice": _choice(request, offer.choice, names, notices)}, tuple(notices)


def _choice(request: ModelRequest, choice: ToolChoice, names: NameMap, notices: list[str]) -> dict[str, Any]:
    if choice not in ("auto", "none") and _thinks(request):
        notices.append("a call cannot be forced while the model thinks; tools are offered, not enforced")
        choice = "auto"
    alone = {} if request.parallel else {"disable_parallel_tool_use": True}
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
    return isinstance(thinking, dict) and thinking.get("type") in THINKING
