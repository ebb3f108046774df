"""A request as a body of Ollama's `/api/chat`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from handrail.core.calls import ToolResult, encode_data
from handrail.core.messages import Content, InvocationMessage, Media, Text
from handrail.core.model_request import ModelRequest
from handrail.models.chat_messages import ChatTurnWriter, function_tools
from handrail.models.codec import WireRequest
from handrail.models.history import AssistantTurn, arguments_of
from handrail.models.profiles import Profile
from handrail.models.request_draft import RequestDraft
from handrail.models.shared_encoding import describe_media
from handrail.models.supported_features import refuse_builtin
from handrail.models.tool_names import OLLAMA_NAMES

PROVIDER = "ollama"
SETTINGS = {"max_tokens": "num_predict", "temperature": "temperature", "top_p": "top_p", "stop": "stop", "seed": "seed"}


def encode(request: ModelRequest, model: str, profile: Profile, *, stream: bool) -> WireRequest:
    refuse_builtin(request, "Ollama's own wire")
    draft = RequestDraft(request, profile, OLLAMA_NAMES)
    body: dict[str, Any] = {"model": model, "messages": draft.write(_MessageWriter, provider=PROVIDER).items}
    if draft.tools:
        draft.put_tools(body, function_tools(draft.tools, draft.names, profile, False))
    if request.response_schema is not None:
        body["format"] = request.response_schema
    if options := draft.settings(SETTINGS):
        body["options"] = options
    body["stream"] = stream
    return draft.finish("/api/chat", body, stream=stream, framing="ndjson")


class _MessageWriter(ChatTurnWriter):
    def user(self, content: tuple[Content, ...]) -> Iterable[dict[str, Any]]:
        images = [part for part in content if isinstance(part, Media) and self._takes(part)]
        texts = [self._words(part) for part in content if part not in images]
        message: dict[str, Any] = {"role": "user", "content": "\n\n".join(texts)}
        yield message | ({"images": [encode_data(image.data or b"") for image in images]} if images else {})

    def reply(self, turn: AssistantTurn) -> Iterable[dict[str, Any]]:
        message: dict[str, Any] = {"role": "assistant", "content": turn.text}
        if turn.calls:
            message["tool_calls"] = [self._call(made) for made in turn.calls]
        echo = self._profile.reasoning_echo
        wanted = echo != "never" and (bool(turn.calls) or echo != "calls")
        thoughts = "".join(artefact.data.get("thinking", "") for artefact in turn.artefacts)
        yield message | ({"thinking": thoughts} if wanted and thoughts else {})

    def _call(self, made: InvocationMessage) -> dict[str, Any]:
        arguments = arguments_of(made.call)
        return {"id": made.id, "function": {"name": self._names.to_wire(made.call.name), "arguments": arguments}}

    def results(self, results: tuple[ToolResult, ...]) -> Iterable[dict[str, Any]]:
        yield from map(self.result, results)
        if shown := self.shown_images(results):
            yield from self.user((*(Text(caption) for caption, _ in shown), *(media for _, media in shown)))

    def result(self, result: ToolResult) -> dict[str, Any]:
        return {
            "role": "tool",
            "tool_name": self._names.to_wire(result.name),
            "tool_call_id": result.tool_call_id,
            "content": self.result_text(result),
        }

    def _takes(self, media: Media) -> bool:
        return self._profile.images and media.media_type.startswith("image/") and media.data is not None

    def _words(self, part: Content) -> str:
        return part.text if isinstance(part, Text) else describe_media(part, self.missed)
