"""Tools and the choice among them, as generateContent takes them."""

from __future__ import annotations

from typing import Any, assert_never

from handrail.core.model import NamedTool, ToolChoice
from handrail.providers.names import NameMap
from handrail.providers.offer import Offered, losses
from handrail.providers.projection import GEMINI, project

PROVIDER = "gemini"


def encode_tools(offer: Offered, names: NameMap, *, strict: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields of the body that speak of tools, and what they cannot say."""
    if not offer.tools:
        return {}, ()
    notices: list[str] = []
    declarations: list[dict[str, Any]] = []
    for each in offer.tools:
        projected = project(each.input_schema, GEMINI)
        notices.extend(losses(each.name, projected.lost))
        declarations.append(
            {
                "name": names.to_wire(each.name),
                "description": each.description,
                "parametersJsonSchema": projected.schema,
            }
        )
    config = {"functionCallingConfig": _choice(offer.choice, names, strict=strict)}
    return {"tools": [{"functionDeclarations": declarations}], "toolConfig": config}, tuple(notices)


def _choice(choice: ToolChoice, names: NameMap, *, strict: bool) -> dict[str, Any]:
    match choice:
        case "auto":
            return {"mode": "VALIDATED" if strict else "AUTO"}
        case "required":
            return {"mode": "ANY"}
        case "none":
            return {"mode": "NONE"}
        case NamedTool(name=name):
            return {"mode": "ANY", "allowedFunctionNames": [names.to_wire(name)]}
    assert_never(choice)
