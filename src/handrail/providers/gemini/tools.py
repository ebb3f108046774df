"""Tools and the choice among them, as generateContent takes them."""

from __future__ import annotations

from typing import Any, assert_never

from handrail.core.model import NamedTool, ToolChoice, ToolOffer
from handrail.providers.codec import Known
from handrail.providers.names import NameMap
from handrail.providers.offer import losses
from handrail.providers.pieces import all_known
from handrail.providers.projection import GEMINI, project
from handrail.providers.remember import remembered

PROVIDER = "gemini"


@remembered
def encode_tools(tools: tuple[ToolOffer, ...], names: NameMap) -> tuple[Known, tuple[str, ...]]:
    """The tools, and what the service cannot be told of them."""
    notices: list[str] = []
    declarations: list[dict[str, Any]] = []
    for each in tools:
        projected = project(each.input_schema, GEMINI)
        notices.extend(losses(each.name, projected.lost))
        declarations.append(
            {
                "name": names.to_wire(each.name),
                "description": each.description,
                "parametersJsonSchema": projected.schema,
            }
        )
    return all_known([{"functionDeclarations": declarations}]), tuple(notices)


def encode_choice(choice: ToolChoice, names: NameMap, *, strict: bool) -> dict[str, Any]:
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
