"""A request as a Chat Completions body."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, assert_never

import msgspec
from msgspec import Struct

from handrail.core.calls import Attachment, ToolResult, encode_data
from handrail.core.messages import Content, InvocationMessage, Media, Text
from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice, ToolOffer
from handrail.models.codec import EncodedList, WireRequest
from handrail.models.conversation_cache import WrittenTurns, write_conversation
from handrail.models.history import AssistantTurn, ResultTurn, SystemTurn, Turn, UserTurn, arguments_text
from handrail.models.identity_cache import cached_by_identity
from handrail.models.openai_chat.content_chunks import begins_reply, with_prefix, with_thoughts
from handrail.models.openai_chat.echoed_fields import PROVIDER, fields_for, thoughts_for
from handrail.models.profiles import Profile
from handrail.models.shared_encoding import (
    as_media,
    describe_media,
    encode_list,
    has_media_source,
    names_of,
    with_builtin,
    with_extra,
)
from handrail.models.supported_features import (
    parallel_flag,
    refuse_builtin,
    schema_for_service,
    schema_loss_notices,
    supported_tools,
    unsupported_setting_notices,
    with_supported_settings,
)
from handrail.models.tool_names import OPENAI_NAMES, NameMap, matches

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class _RequestEnvelope(Struct, frozen=True):
    """All of a request but for what was said."""

    names: NameMap
    body: dict[str, Any]
    notices: tuple[str, ...]
    known: tuple[EncodedList, ...]
    tools_offered: bool = False
    instruction: str = ""
    """What the model must be told before anything else."""


def encode(request: ModelRequest, model: str, profile: Profile, *, stream: bool, service: str) -> WireRequest:
    envelope = _envelope(request, model, profile, stream=stream)
    tools_offered = envelope.tools_offered
    said = write_conversation(
        request, _write_history, envelope.names, profile, service, provider=PROVIDER, tools_offered=tools_offered
    )
    if envelope.instruction:
        said = said.after({"role": "system", "content": envelope.instruction})
    if profile.chunks and begins_reply(said.items):
        said = WrittenTurns(with_prefix(said.items), said.missed)
    body = {**envelope.body, "messages": said.items}
    return WireRequest(
        path="/chat/completions",
        body=with_extra(body, request.extra),
        framing="sse" if stream else "json",
        exact=False,
        notices=(*envelope.notices, *said.missed),
        known=(*envelope.known, *said.known),
    )


def _envelope(request: ModelRequest, model: str, profile: Profile, *, stream: bool) -> _RequestEnvelope:
    offer = supported_tools(request, profile)
    names = names_of(request.tools, OPENAI_NAMES)
    notices = [*offer.notices, *unsupported_setting_notices(request, profile)]
    known: tuple[EncodedList, ...] = ()
    body: dict[str, Any] = {"model": model}
    if not profile.chat_builtin:
        refuse_builtin(request, "this service's Chat Completions", "; OpenAI has them as 'openai-responses'")
    own = None
    if offer.tools:
        own, lost = _tools(offer.tools, names, profile)
        notices += lost
        if offer.choice != "auto":
            body["tool_choice"] = _choice(offer.choice, names)
        if (flag := parallel_flag(request, profile)) is not None:
            body["parallel_tool_calls"] = flag
    builtin = () if own is None and request.tool_choice == "none" else request.builtin_tools
    if (tools := with_builtin(own, builtin)) is not None:
        body["tools"] = tools.items
        known = (tools,)
    body |= _settings(with_supported_settings(request, profile), profile)
    instruction = ""
    if request.response_schema is not None:
        instruction = _response_format(body, request.response_schema, profile, notices)
    if stream:
        body["stream"] = True
        if profile.stream_usage:
            body["stream_options"] = {"include_usage": True}
    return _RequestEnvelope(names, body, tuple(notices), known, own is not None, instruction)


@cached_by_identity
def _tools(tools: tuple[ToolOffer, ...], names: NameMap, profile: Profile) -> tuple[EncodedList, tuple[str, ...]]:
    notices: list[str] = []
    items = [_tool(tool, names, profile, notices) for tool in tools]
    return encode_list(items), tuple(notices)


def _write_history(names: NameMap, profile: Profile, service: str, history: tuple[Turn, ...]) -> WrittenTurns:
    writer = _MessageWriter(names, profile, service)
    return WrittenTurns([said for turn in history for said in writer.turn(turn)], tuple(writer.missed))


def _tool(tool: ToolOffer, names: NameMap, profile: Profile, notices: list[str]) -> dict[str, Any]:
    shape = schema_for_service(tool.input_schema, profile, nulls=True)
    notices += schema_loss_notices(f"tool {tool.name!r}", shape.lost)
    function = {"name": names.to_wire(tool.name), "description": tool.description, "parameters": shape.schema}
    return {"type": "function", "function": function | ({"strict": True} if shape.strict else {})}


def _choice(choice: ToolChoice, names: NameMap) -> Any:
    match choice:
        case NamedTool(name):
            return {"type": "function", "function": {"name": names.to_wire(name)}}
    return choice


def _settings(request: ModelRequest, profile: Profile) -> dict[str, Any]:
    settings = {
        profile.max_tokens_field: request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": list(request.stop) or None,
        profile.seed_field: request.seed,
    }
    return {key: value for key, value in settings.items() if value is not None}


def _response_format(body: dict[str, Any], schema: dict[str, Any], profile: Profile, notices: list[str]) -> str:
    """Put the schema of the reply into the body. Returns what the model must be told beside it."""
    if profile.response_format == "json_schema":
        shape = schema_for_service(schema, profile)
        notices += schema_loss_notices("response_schema", shape.lost)
        form = {"name": "reply", "schema": shape.schema, "strict": shape.strict}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
        return ""
    if profile.response_format == "json_object":
        body["response_format"] = {"type": "json_object"}
    notices.append("this service cannot hold a reply to a schema; the model is asked to keep to it")
    return f"Reply with JSON only. It must fit this JSON Schema:\n{msgspec.json.encode(schema).decode()}"


class _MessageWriter:
    """Turns as messages."""

    def __init__(self, names: NameMap, profile: Profile, service: str) -> None:
        self._names = names
        self._profile = profile
        self._service = service
        self.missed: list[str] = []

    def turn(self, turn: Turn) -> Iterator[dict[str, Any]]:
        match turn:
            case SystemTurn(text):
                yield {"role": "system", "content": text}
            case UserTurn(content):
                yield {"role": "user", "content": self._content(content)}
            case AssistantTurn():
                message = self._assistant(turn)
                yield with_thoughts(message, self._profile.reasoning_fields[0]) if self._profile.chunks else message
            case ResultTurn(results):
                yield from map(self._result, results)
                yield from self._shown(results)
            case _:
                assert_never(turn)

    def _assistant(self, turn: AssistantTurn) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
        if turn.calls:
            message["tool_calls"] = [self._call(made) for made in turn.calls]
        if turn.artefacts:
            message |= fields_for(self._service, turn.artefacts)
        if (echo := self._profile.reasoning_echo) != "never" and (turn.calls or echo != "calls"):
            thoughts = thoughts_for(self._service, turn.artefacts)
            if thoughts or (turn.calls and echo == "required"):
                message[self._profile.reasoning_fields[0]] = thoughts
        return message

    def _call(self, made: InvocationMessage) -> dict[str, Any]:
        function = {
            "name": self._names.to_wire(made.call.name),
            "arguments": arguments_text(made.call),
        }
        call = {"id": wire_id(made.id, self._profile), "type": "function", "function": function}
        return call | fields_for(self._service, made.artefacts) if made.artefacts else call

    def _result(self, result: ToolResult) -> dict[str, Any]:
        """The wire takes only text here; images follow as if the user had shown them."""
        notes = [self._note(attachment) for attachment in result.attachments]
        content = "\n".join([result.text, *notes])
        return {"role": "tool", "tool_call_id": wire_id(result.tool_call_id, self._profile), "content": content}

    def _note(self, attachment: Attachment) -> str:
        if self._shows(attachment):
            return f"[{attachment.name}, {attachment.media_type}: shown below]"
        return describe_media(as_media(attachment), self.missed)

    def _shown(self, results: tuple[ToolResult, ...]) -> Iterator[dict[str, Any]]:
        shown = [
            part
            for result in results
            for attachment in result.attachments
            if self._shows(attachment)
            for part in (_text(f"{attachment.name}, from the result of {result.name}:"), _image(as_media(attachment)))
        ]
        if shown:
            yield {"role": "user", "content": shown}

    def _shows(self, attachment: Attachment) -> bool:
        image = attachment.media_type.startswith("image/")
        return image and self._profile.images and self._profile.user_after_result

    def _content(self, content: tuple[Content, ...]) -> str | list[dict[str, Any]]:
        parts = [self._part(part) for part in content]
        if all(part["type"] == "text" for part in parts):
            return "\n\n".join(part["text"] for part in parts)
        return parts

    def _part(self, part: Content) -> dict[str, Any]:
        match part:
            case Text(text):
                return _text(text)
            case Media(media_type=kind) if (
                kind.startswith("image/") and self._profile.images and has_media_source(part)
            ):
                return _image(part)
            case Media(media_type="application/pdf", data=bytes()) if self._profile.files:
                return {"type": "file", "file": {"filename": part.name or "file.pdf", "file_data": data_url(part)}}
            case Media():
                return _text(describe_media(part, self.missed))


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


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(media: Media) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(media)}}
