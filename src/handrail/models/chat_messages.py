"""Messages and tools in the form of Chat Completions, which other wires have in part: Ollama, Cohere, Responses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from handrail.core.calls import Attachment, ToolResult, encode_data
from handrail.core.messages import Content, InvocationMessage, Media, Text
from handrail.core.model_request import ToolOffer
from handrail.models.codec import EncodedList
from handrail.models.history import ResultTurn, Turn, UserTurn, arguments_text
from handrail.models.identity_cache import cached_by_identity
from handrail.models.profiles import Profile
from handrail.models.shared_encoding import as_media, describe_media, encode_list, has_media_source
from handrail.models.supported_features import schema_for_service, schema_loss_notices
from handrail.models.tool_names import NameMap, matches
from handrail.models.turn_writer import TurnWriter

HEARD = "OK"
"""Said for the model between a result and the user, where a service wants it to speak there. A run may end with a
result: that of the call by which the model gave a typed answer, or at a limit."""
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class ChatTurnWriter(TurnWriter):
    """Writes for wires with one message for each turn, and one for each result."""

    def items(self, history: Sequence[Turn]) -> list[dict[str, Any]]:
        if self._profile.user_after_result:
            return super().items(history)
        items: list[dict[str, Any]] = []
        for before, turn in zip((None, *history), history, strict=False):
            if isinstance(before, ResultTurn) and isinstance(turn, UserTurn):
                items.append({"role": "assistant", "content": HEARD})
            items.extend(self.turn(turn))
        return items

    def user(self, content: tuple[Content, ...]) -> Iterable[dict[str, Any]]:
        if len(content) == 1 and isinstance(content[0], Text):
            return ({"role": "user", "content": content[0].text},)
        parts = [self.content(part) for part in content]
        if all(part["type"] == "text" for part in parts):
            return ({"role": "user", "content": "\n\n".join(part["text"] for part in parts)},)
        return ({"role": "user", "content": parts},)

    def media(self, media: Media) -> dict[str, Any] | None:
        if media.media_type.startswith("image/") and self._profile.images and has_media_source(media):
            return {"type": "image_url", "image_url": {"url": data_url(media)}}
        return None

    def function_call(self, made: InvocationMessage, id: str) -> dict[str, Any]:
        function = {"name": self._names.to_wire(made.call.name), "arguments": arguments_text(made.call)}
        return {"id": id, "type": "function", "function": function}

    def result_text(self, result: ToolResult) -> str:
        """For wires that take only text as a result: images follow as if the user had shown them (`shown_images`)."""
        if not result.attachments:
            return result.text
        return "\n".join([result.text, *map(self._note, result.attachments)])

    def _note(self, attachment: Attachment) -> str:
        if self._shows(attachment):
            return f"[{attachment.name}, {attachment.media_type}: shown below]"
        return describe_media(as_media(attachment), self.missed)

    def shown_images(self, results: tuple[ToolResult, ...]) -> list[tuple[str, Media]]:
        """The images of results that the user shows, each with words for it."""
        return [
            (f"{attachment.name}, from the result of {result.name}", as_media(attachment))
            for result in results
            for attachment in result.attachments
            if self._shows(attachment)
        ]

    def _shows(self, attachment: Attachment) -> bool:
        image = attachment.media_type.startswith("image/")
        return image and self._profile.images and self._profile.user_after_result


@cached_by_identity
def function_tools(
    tools: tuple[ToolOffer, ...], names: NameMap, profile: Profile, strict: bool
) -> tuple[EncodedList, tuple[str, ...]]:
    """The tools, and what the service cannot be told of them. With `strict`, calls are held to a schema that can be."""
    notices: list[str] = []
    items: list[dict[str, Any]] = []
    for tool in tools:
        shape = schema_for_service(tool.input_schema, profile, nulls=strict)
        notices += schema_loss_notices(f"tool {tool.name!r}", shape.lost)
        function = {"name": names.to_wire(tool.name), "description": tool.description, "parameters": shape.schema}
        items.append({"type": "function", "function": function | ({"strict": True} if strict and shape.strict else {})})
    return encode_list(items), tuple(notices)


def json_instruction(schema: dict[str, Any]) -> dict[str, Any]:
    """Asks the model for a reply by a schema, where the service cannot hold it to one."""
    words = f"Reply with JSON only. It must fit this JSON Schema:\n{msgspec.json.encode(schema).decode()}"
    return {"role": "system", "content": words}


def wire_id(id: str, profile: Profile) -> str:
    """The id of a call as the service takes it: the same for the call and its result."""
    rule = profile.call_ids
    if rule is None or matches(rule.pattern, id):
        return id
    digest = int.from_bytes(sha256(id.encode()).digest())
    return "".join(_DIGITS[digest // 62**place % 62] for place in range(rule.length))


def data_url(media: Media) -> str:
    """The address of an image, or the image itself in the form of one."""
    return media.url or f"data:{media.media_type};base64,{encode_data(media.data or b'')}"
