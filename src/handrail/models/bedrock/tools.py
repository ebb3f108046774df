"""Tools and the choice among them, as Converse takes them."""

from __future__ import annotations

from typing import Any, assert_never

from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice, ToolOffer
from handrail.models.anthropic.strict_schemas import tools_with_strictness
from handrail.models.identity_cache import cached_by_identity
from handrail.models.projection.rules import BEDROCK
from handrail.models.supported_features import SupportedTools
from handrail.models.tool_names import NameMap, NameRule

PROVIDER = "bedrock"
IDS = NameRule(r"[A-Za-z0-9_.:-]+", 64)
CACHE_POINT = {"cachePoint": {"type": "default"}}


def encode_tools(
    request: ModelRequest, offer: SupportedTools, names: NameMap, *, strict: bool, cache: bool
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The field of the body that speaks of tools, and what it cannot say."""
    builtin = () if request.tool_choice == "none" else request.builtin_tools
    if not offer.tools:
        unsaid = (request.tools or request.builtin_tools) and request.tool_choice == "none"
        left_out = ("Converse has no tool_choice none; the tools were left out",) if unsaid else ()
        return {"toolConfig": {"tools": [*builtin]}} if builtin else {}, left_out
    tools, notices = _tools(offer.tools, names, strict, cache)
    return {"toolConfig": {"tools": [*builtin, *tools], "toolChoice": _choice(offer.choice, names)}}, notices


@cached_by_identity
def _tools(
    offers: tuple[ToolOffer, ...], names: NameMap, strict: bool, cache: bool
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    notices: list[str] = []
    tools: list[dict[str, Any]] = []
    for each, schema, held in tools_with_strictness(offers, BEDROCK, notices, strict=strict):
        spec: dict[str, Any] = {"name": names.to_wire(each.name), "inputSchema": {"json": schema}}
        if each.description:
            spec["description"] = each.description
        if held:
            spec["strict"] = True
        tools.append({"toolSpec": spec})
    if cache:
        tools.append(CACHE_POINT)
    return tools, tuple(notices)


def _choice(choice: ToolChoice, names: NameMap) -> dict[str, Any]:
    match choice:
        case "auto":
            return {"auto": {}}
        case "required":
            return {"any": {}}
        case NamedTool(name=name):
            return {"tool": {"name": names.to_wire(name)}}
        case "none":
            # Only a profile that claims this form leads here.
            return {"auto": {}}
    assert_never(choice)
