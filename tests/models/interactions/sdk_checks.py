"""The google-genai package as a judge of our wire. Its types let unknown keys and kinds pass: these are looked for."""

from __future__ import annotations

from typing import Any

from google.genai._gaos.types.interactions import CreateModelInteraction, Interaction
from google.genai._gaos.types.interactions.interactionsseevent import InteractionSSEEvent
from pydantic import BaseModel, TypeAdapter

_EVENT: TypeAdapter[Any] = TypeAdapter(InteractionSSEEvent)
_OPEN = ("arguments", "parameters", "result", "schema_", "custom_metadata")
"""Fields that hold whatever a tool or a schema holds."""
_NEWER = {"signature", "search_suggestions"}
"""What the service is seen to send on steps whose types lack it."""


def accepts(body: dict[str, Any]) -> bool:
    _strictly(CreateModelInteraction.model_validate(body))
    return True


def read_reply(reply: dict[str, Any]) -> Interaction:
    read = Interaction.model_validate(reply)
    _strictly(read)
    return read


def read_event(event: dict[str, Any]) -> Any:
    read = _EVENT.validate_python(event)
    _strictly(read)
    return read


def _strictly(value: Any) -> None:
    match value:
        case BaseModel():
            assert not getattr(value, "is_unknown", False), f"of no known kind: {value}"
            unknown = (value.model_extra or {}).keys() - _NEWER - {"object"}
            assert not unknown, f"{type(value).__name__} has no {sorted(unknown)}"
            for name, each in value.__dict__.items():  # an attribute that is deprecated warns
                if name not in _OPEN:
                    _strictly(each)
        case list() | tuple():
            for each in value:
                _strictly(each)
        case dict():
            for each in value.values():
                _strictly(each)
