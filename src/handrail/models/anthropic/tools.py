"""Tools and the choice among them, as the Messages API takes them."""

from __future__ import annotations

from typing import Any, assert_never

from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice, ToolOffer
from handrail.models.anthropic.strict_schemas import tools_with_strictness
from handrail.models.codec import EncodedList
from handrail.models.identity_cache import cached_by_identity
from handrail.models.projection.rules import ANTHROPIC
from handrail.models.shared_encoding import encode_list
from handrail.models.supported_features import has_deferred_tools, has_program_tools
from handrail.models.tool_names import NameMap, NameRule

PROVIDER = "anthropic"
IDS = NameRule(r"[A-Za-z0-9_-]+", 64)
EPHEMERAL = {"type": "ephemeral"}
"""Marks the end of what the service caches: tools come first, then the system text, then the conversation."""
SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
"""The service's own search among deferred tools."""
_THINKING = ("enabled", "adaptive", "between_tools")


@cached_by_identity
def encode_tools(
    offers: tuple[ToolOffer, ...], names: NameMap, strict: bool, cache: bool, programs: str = ""
) -> tuple[EncodedList, tuple[str, ...]]:
    """The tools, and what the service cannot be told of them."""
    notices: list[str] = []
    tools: list[dict[str, Any]] = []
    for each, schema, held in tools_with_strictness(offers, ANTHROPIC, notices, strict=strict):
        tool: dict[str, Any] = {"name": names.to_wire(each.name), "input_schema": schema}
        if each.description:
            tool["description"] = each.description
        if each.by_program:
            tool["allowed_callers"] = [programs]
        elif held:
            tool["strict"] = True
        if each.deferred:
            tool["defer_loading"] = True
        tools.append(tool)
    if has_deferred_tools(offers):
        tools.append(dict(SEARCH))  # last, where the mark for the cache goes, which no deferred tool may have
    if has_program_tools(offers):
        tools.append({"type": programs, "name": "code_execution"})
    if cache:
        tools[-1]["cache_control"] = EPHEMERAL
    return encode_list(tools), tuple(notices)


def encode_choice(request: ModelRequest, choice: ToolChoice, names: NameMap) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The choice, and what is not enforced of it."""
    if has_program_tools(request.tools) and not request.parallel:
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
