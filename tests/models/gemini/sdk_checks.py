"""The google-genai package as a judge of our wire. Its types refuse keys that they do not know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.genai import types

_PARTS: dict[str, Any] = {
    "systemInstruction": types.Content,
    "toolConfig": types.ToolConfig,
    "generationConfig": types.GenerationConfig,
}


def accepts(body: dict[str, Any]) -> bool:
    assert body.keys() <= {"contents", "tools", *_PARTS}
    for content in body["contents"]:
        assert types.Content.model_validate(content).role in ("user", "model")
    for tool in body.get("tools", ()):
        types.Tool.model_validate(tool)
    for key in body.keys() & _PARTS.keys():
        _PARTS[key].model_validate(body[key])
    return True


def calls(replies: Iterable[dict[str, Any]]) -> list[tuple[str | None, dict[str, Any] | None]]:
    """The calls that the SDK finds in the events of a stream, or in a whole reply."""
    read = (types.GenerateContentResponse.model_validate(reply) for reply in replies)
    return [(call.name, call.args) for response in read for call in response.function_calls or ()]


def text(replies: Iterable[dict[str, Any]]) -> str:
    parts = (
        part
        for reply in replies
        for part in types.GenerateContentResponse.model_validate(reply).parts or ()
        if part.text and not part.thought
    )
    return "".join(part.text or "" for part in parts)
