"""A request as a body of Ollama's `/api/chat`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

from handrail.core.calls import ToolResult, encode_data
from handrail.core.messages import Content, InvocationMessage, Media, Text
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.models.codec import EncodedList, WireRequest
from handrail.models.conversation_cache import WrittenTurns, write_conversation
from handrail.models.history import AssistantTurn, ResultTurn, SystemTurn, Turn, UserTurn, arguments_of
from handrail.models.identity_cache import cached_by_identity
from handrail.models.profiles import Profile
from handrail.models.shared_encoding import as_media, describe_media, encode_list, names_of, with_extra
from handrail.models.supported_features import (
    refuse_builtin,
    schema_for_service,
    schema_loss_notices,
    supported_tools,
    unsupported_setting_notices,
    with_supported_settings,
)
from handrail.models.tool_names import OLLAMA_NAMES, NameMap

PROVIDER = "ollama"


def encode(request: ModelRequest, model: str, profile: Profile, *, stream: bool) -> WireRequest:
    refuse_builtin(request, "Ollama's own wire")
    offer = supported_tools(request, profile)
    names = names_of(request.tools, OLLAMA_NAMES)
    notices = [*offer.notices, *unsupported_setting_notices(request, profile)]
    said = write_conversation(
        request, _write_history, names, profile, provider=PROVIDER, tools_offered=bool(offer.tools)
    )
    known = said.known
    body: dict[str, Any] = {"model": model, "messages": said.items}
    if offer.tools:
        tools, lost = _tools(offer.tools, names, profile)
        body["tools"] = tools.items
        notices += lost
        known = (*known, tools)
    if request.response_schema is not None:
        body["format"] = request.response_schema
    if options := _options(with_supported_settings(request, profile)):
        body["options"] = options
    body["stream"] = stream
    return WireRequest(
        path="/api/chat",
        body=with_extra(body, request.extra),
        framing="ndjson" if stream else "json",
        notices=(*notices, *said.missed),
        known=known,
    )


@cached_by_identity
def _tools(tools: tuple[ToolOffer, ...], names: NameMap, profile: Profile) -> tuple[EncodedList, tuple[str, ...]]:
    notices: list[str] = []
    items = [_tool(tool, names, profile, notices) for tool in tools]
    return encode_list(items), tuple(notices)


def _write_history(names: NameMap, profile: Profile, history: tuple[Turn, ...]) -> WrittenTurns:
    writer = _MessageWriter(names, profile)
    return WrittenTurns([said for turn in history for said in writer.turn(turn)], tuple(writer.missed))


def _tool(tool: ToolOffer, names: NameMap, profile: Profile, notices: list[str]) -> dict[str, Any]:
    shape = schema_for_service(tool.input_schema, profile)
    notices += schema_loss_notices(f"tool {tool.name!r}", shape.lost)
    function = {"name": names.to_wire(tool.name), "description": tool.description, "parameters": shape.schema}
    return {"type": "function", "function": function}


def _options(request: ModelRequest) -> dict[str, Any]:
    options = {
        "num_predict": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": list(request.stop) or None,
        "seed": request.seed,
    }
    return {key: value for key, value in options.items() if value is not None}


class _MessageWriter:
    """Turns as messages."""

    def __init__(self, names: NameMap, profile: Profile) -> None:
        self._names = names
        self._profile = profile
        self.missed: list[str] = []

    def turn(self, turn: Turn) -> Iterator[dict[str, Any]]:
        match turn:
            case SystemTurn(text):
                yield {"role": "system", "content": text}
            case UserTurn(content):
                yield self._user(content)
            case AssistantTurn():
                yield self._assistant(turn)
            case ResultTurn(results):
                yield from map(self._result, results)
                yield from self._shown(results)
            case _:
                assert_never(turn)

    def _user(self, content: tuple[Content, ...]) -> dict[str, Any]:
        images = [part for part in content if isinstance(part, Media) and self._takes(part)]
        texts = [self._words(part) for part in content if part not in images]
        message: dict[str, Any] = {"role": "user", "content": "\n\n".join(texts)}
        return message | ({"images": [encode_data(image.data or b"") for image in images]} if images else {})

    def _assistant(self, turn: AssistantTurn) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": turn.text}
        if turn.calls:
            message["tool_calls"] = [self._call(made) for made in turn.calls]
        echo = self._profile.reasoning_echo
        wanted = echo != "never" and (bool(turn.calls) or echo != "calls")
        thoughts = "".join(artefact.data.get("thinking", "") for artefact in turn.artefacts)
        return message | ({"thinking": thoughts} if wanted and thoughts else {})

    def _call(self, made: InvocationMessage) -> dict[str, Any]:
        arguments = arguments_of(made.call)
        return {"id": made.id, "function": {"name": self._names.to_wire(made.call.name), "arguments": arguments}}

    def _result(self, result: ToolResult) -> dict[str, Any]:
        """The wire takes only text here; images follow as if the user had shown them."""
        media = [as_media(attachment) for attachment in result.attachments]
        notes = [
            f"[{each.name}, {each.media_type}: shown below]" if self._shows(each) else self._words(each)
            for each in media
        ]
        return {
            "role": "tool",
            "tool_name": self._names.to_wire(result.name),
            "tool_call_id": result.tool_call_id,
            "content": "\n".join([result.text, *notes]),
        }

    def _shown(self, results: tuple[ToolResult, ...]) -> Iterator[dict[str, Any]]:
        attached = [(result, as_media(attachment)) for result in results for attachment in result.attachments]
        shown = [(result, media) for result, media in attached if self._shows(media)]
        if shown:
            captions = (Text(f"{media.name}, from the result of {result.name}") for result, media in shown)
            yield self._user((*captions, *(media for _, media in shown)))

    def _shows(self, media: Media) -> bool:
        return self._takes(media) and self._profile.user_after_result

    def _takes(self, media: Media) -> bool:
        return self._profile.images and media.media_type.startswith("image/") and media.data is not None

    def _words(self, part: Content) -> str:
        match part:
            case Text(text):
                return text
            case Media():
                return describe_media(part, self.missed)
