"""Tools and the choice among them, as generateContent takes them."""

from __future__ import annotations

from typing import Any, assert_never

from handrail.core.model_request import NamedTool, ToolChoice, ToolOffer
from handrail.models.codec import EncodedList
from handrail.models.identity_cache import cached_by_identity
from handrail.models.projection import GEMINI, project
from handrail.models.shared_encoding import encode_list
from handrail.models.supported_features import schema_loss_notices
from handrail.models.tool_names import NameMap

PROVIDER = "gemini"


@cached_by_identity
def encode_tools(tools: tuple[ToolOffer, ...], names: NameMap) -> tuple[EncodedList, tuple[str, ...]]:
    """The tools, and what the service cannot be told of them."""
    notices: list[str] = []
    declarations: list[dict[str, Any]] = []
    for each in tools:
        projected = project(each.input_schema, GEMINI)
        notices.extend(schema_loss_notices(each.name, projected.lost))
        declarations.append(
            {
                "name": names.to_wire(each.name),
                "description": each.description,
                "parametersJsonSchema": projected.schema,
            }
        )
    return encode_list([{"functionDeclarations": declarations}]), tuple(notices)


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
