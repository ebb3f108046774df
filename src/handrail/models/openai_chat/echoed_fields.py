"""What a service of the Chat wire wants back beside a reply's text and calls, and only that service understands.

- `reasoning_details` (OpenRouter, Snowflake, MiniMax): thoughts with their signatures, in pieces that have an index.
- `extra_content` (Gemini): signatures of a call, or of the whole message.
- the text of its thoughts, which `Profile.reasoning_echo` asks for (DeepSeek, Kimi, GLM).

One wire has many services, so each artefact names the one that it came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from handrail.core.messages import Artefact
from handrail.models.shared_encoding import merge_fields

PROVIDER = "openai_chat"

_JOINED = ("text", "summary", "data")
"""Fields of a thought that come in pieces; of any other, the last one that says something holds."""


class ReasoningDetails:
    """The pieces of a reply's `reasoning_details`, put together by index and type."""

    def __init__(self) -> None:
        self._found: dict[Any, dict[str, Any]] = {}

    def add(self, piece: Mapping[str, Any]) -> str:
        """Take one piece. Returns what of it is thought aloud."""
        index = piece.get("index")
        key = (index if index is not None else piece.get("id") or len(self._found), piece.get("type"))
        known = self._found.setdefault(key, {})
        for name, value in piece.items():
            before = known.get(name)
            if name in _JOINED and isinstance(value, str) and isinstance(before, str):
                known[name] = before + value
            elif value is not None or name not in known:
                known[name] = value
        words = piece.get("text") or piece.get("summary")
        return words if isinstance(words, str) else ""

    @property
    def whole(self) -> list[dict[str, Any]]:
        return list(self._found.values())


def reply_artefacts(
    service: str, thoughts: str, details: list[dict[str, Any]], extra: dict[str, Any]
) -> tuple[Artefact, ...]:
    """What goes back with the message of a reply; nothing if the service gave nothing of the kind.

    Details have the text of the thoughts, which then need not be kept twice.
    """
    given = {"reasoning": "" if details else thoughts, "reasoning_details": details, "extra_content": extra}
    data = {key: value for key, value in given.items() if value}
    return (Artefact(PROVIDER, {**data, "service": service}),) if data else ()


def call_artefacts(service: str, extra: object) -> tuple[Artefact, ...]:
    """What goes back with a call."""
    return (Artefact(PROVIDER, {"extra_content": extra, "service": service}),) if isinstance(extra, dict) else ()


def thoughts_for(service: str, artefacts: Iterable[Artefact]) -> str:
    return "".join(data.get("reasoning", "") for data in _of(service, artefacts))


def fields_for(service: str, artefacts: Iterable[Artefact]) -> dict[str, Any]:
    """The fields that a message or a call of a history has for this service beside its own."""
    if not artefacts:
        return {}
    fields: dict[str, Any] = {}
    for data in _of(service, artefacts):
        if details := data.get("reasoning_details"):
            fields["reasoning_details"] = [*fields.get("reasoning_details", ()), *details]
        if extra := data.get("extra_content"):
            fields["extra_content"] = merge_fields(fields.get("extra_content", {}), extra)
    return fields


def _of(service: str, artefacts: Iterable[Artefact]) -> Iterator[dict[str, Any]]:
    """The artefacts of this service. Artefacts of old journals name no service and count as its own."""
    return (artefact.data for artefact in artefacts if artefact.data.get("service", service) == service)
