"""What both of Google's wires share of tools, choices, signatures and results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from handrail.core.messages import InvocationMessage
from handrail.core.model_request import NamedTool, ToolChoice, ToolOffer
from handrail.models.codec import EncodedList
from handrail.models.identity_cache import cached_by_identity
from handrail.models.profiles import Profile
from handrail.models.projection.project import project
from handrail.models.projection.rules import GEMINI
from handrail.models.shared_encoding import encode_list
from handrail.models.supported_features import schema_loss_notices
from handrail.models.tool_names import NameMap

PROVIDER = "gemini"


@cached_by_identity
def declarations(tools: tuple[ToolOffer, ...], names: NameMap) -> tuple[EncodedList, tuple[str, ...]]:
    """The tools as generateContent takes them, and what the service cannot be told of them."""
    items, notices = function_declarations(tools, names, "parametersJsonSchema")
    return encode_list([{"functionDeclarations": items}]), notices


def function_declarations(
    tools: tuple[ToolOffer, ...], names: NameMap, schema_key: str
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    notices: list[str] = []
    items: list[dict[str, Any]] = []
    for tool in tools:
        projected = project(tool.input_schema, GEMINI)
        notices += schema_loss_notices(tool.name, projected.lost)
        about = {"name": names.to_wire(tool.name), "description": tool.description}
        items.append({**about, schema_key: projected.schema})
    return items, tuple(notices)


def encode_choice(choice: ToolChoice, names: NameMap, *, strict: bool) -> tuple[str, list[str]]:
    """The mode of calling, and the only tools that may be called; none of them is all."""
    if isinstance(choice, NamedTool):
        return "any", [names.to_wire(choice.name)]
    return {"auto": "validated" if strict else "auto", "required": "any", "none": "none"}[choice], []


def signature_of(message: InvocationMessage, provider: str, key: str) -> str | None:
    """What the service signed a call with; None if another model made it."""
    if not message.artefacts:
        return None
    found = (artefact.data.get(key) for artefact in message.artefacts if artefact.provider == provider)
    return next((signature for signature in found if signature), None)


def split_attachments(
    attached: list[dict[str, Any]],
    beside: list[dict[str, Any]],
    fits: Callable[[dict[str, Any]], bool],
    profile: Profile,
) -> list[dict[str, Any]]:
    """What of a result's attachments may be inside of it. The rest is added to `beside`, for the user to show."""
    inside = list(filter(fits, attached)) if profile.media_in_results else []
    beside += [part for part in attached if part not in inside]
    return inside
