"""A request as a Chat Completions body."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple

from handrail.core.calls import ToolResult
from handrail.core.messages import InvocationMessage, Media
from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice
from handrail.models.chat_messages import ChatTurnWriter, data_url, function_tools, json_instruction, wire_id
from handrail.models.codec import EncodedList, WireRequest
from handrail.models.conversation_cache import WrittenTurns, write_conversation
from handrail.models.history import AssistantTurn
from handrail.models.identity_cache import cached_by_identity
from handrail.models.openai_chat.content_chunks import begins_reply, with_prefix, with_thoughts
from handrail.models.openai_chat.echoed_fields import PROVIDER, fields_for, thoughts_for
from handrail.models.profiles import Profile
from handrail.models.reply_schemas import openai_reply_schema
from handrail.models.request_draft import RequestDraft
from handrail.models.shared_encoding import with_extra
from handrail.models.supported_features import parallel_flag, refuse_builtin, schema_loss_notices
from handrail.models.tool_names import OPENAI_NAMES, NameMap


class _RequestFrame(Struct, frozen=True):
    """A request but for its messages, and for what the caller adds: the same in every turn."""

    body: dict[str, Any]
    text: bytes
    """The JSON of the body without its closing brace; nothing if it has none."""
    names: NameMap
    tools_offered: bool
    notices: tuple[str, ...]
    known: tuple[EncodedList, ...]
    instruction: dict[str, Any] | None
    """What the model is told first, where nothing else holds it to the schema of its reply."""


def encode(request: ModelRequest, model: str, profile: Profile, *, stream: bool, service: str) -> WireRequest:
    _, *asked, _extra, _scratch = astuple(request)
    frame = _frame(profile, model, stream, *asked)
    said = write_conversation(
        request,
        _MessageWriter.write,
        profile,
        frame.names,
        service,
        provider=PROVIDER,
        tools_offered=frame.tools_offered,
    )
    if frame.instruction is not None:
        said = said.after(frame.instruction)
    if profile.chunks and begins_reply(said.items):
        said = WrittenTurns(with_prefix(said.items), said.missed)
    body = {**frame.body, "messages": said.items}
    return WireRequest(
        path="/chat/completions",
        body=with_extra(body, request.extra),
        framing="sse" if stream else "json",
        exact=False,
        notices=frame.notices + said.missed,
        known=frame.known + said.known,
        begun=(body, frame.text) if frame.text else None,
    )


@cached_by_identity
def _frame(profile: Profile, model: str, stream: bool, *asked: Any) -> _RequestFrame:
    request = ModelRequest(**dict(zip(ModelRequest.__struct_fields__, ((), *asked), strict=False)))
    if not profile.chat_builtin:
        refuse_builtin(request, "this service's Chat Completions", "; OpenAI has them as 'openai-responses'")
    draft = RequestDraft(request, profile, OPENAI_NAMES)
    body: dict[str, Any] = {"model": model}
    own = None
    if draft.tools:
        own = function_tools(draft.tools, draft.names, profile, True)
        if draft.offer.choice != "auto":
            body["tool_choice"] = _choice(draft.offer.choice, draft.names)
        if (flag := parallel_flag(request, profile)) is not None:
            body["parallel_tool_calls"] = flag
    draft.put_tools(body, own, () if own is None and request.tool_choice == "none" else request.builtin_tools)
    settings = {"max_tokens": profile.max_tokens_field, "temperature": "temperature", "top_p": "top_p", "stop": "stop"}
    body |= draft.settings({**settings, "seed": profile.seed_field})
    schema, instruction = request.response_schema, None
    if schema is not None and not _holds_to_schema(body, schema, profile, draft):
        instruction = json_instruction(schema)
    if stream:
        body["stream"] = True
        if profile.stream_usage:
            body["stream_options"] = {"include_usage": True}
    known = draft.known
    try:
        text = WireRequest(path="", body=body, known=known).text()[:-1]
    except (TypeError, ValueError, RecursionError):
        text = b""  # whoever sends the request says what is wrong with it
    return _RequestFrame(body, text, draft.names, bool(draft.tools), tuple(draft.notices), known, instruction)


def _choice(choice: ToolChoice, names: NameMap) -> Any:
    match choice:
        case NamedTool(name):
            return {"type": "function", "function": {"name": names.to_wire(name)}}
    return choice


def _holds_to_schema(body: dict[str, Any], schema: dict[str, Any], profile: Profile, draft: RequestDraft) -> bool:
    """Put the schema of the reply into the body; False if the model must be asked to keep to it."""
    if profile.response_format == "json_schema":
        shape = openai_reply_schema(schema, profile, draft.request.response_nulls)
        draft.notices += schema_loss_notices("response_schema", shape.lost)
        form = {"name": "reply", "schema": shape.schema, "strict": shape.strict}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
        return True
    if profile.response_format == "json_object":
        body["response_format"] = {"type": "json_object"}
    draft.notices.append("this service cannot hold a reply to a schema; the model is asked to keep to it")
    return False


class _MessageWriter(ChatTurnWriter):
    def __init__(self, profile: Profile, names: NameMap, service: str) -> None:
        super().__init__(profile, names)
        self._service = service

    def reply(self, turn: AssistantTurn) -> Iterable[dict[str, Any]]:
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
        if turn.calls:
            message["tool_calls"] = [self._call(made) for made in turn.calls]
        if turn.artefacts:
            message |= fields_for(self._service, turn.artefacts)
        if (echo := self._profile.reasoning_echo) != "never" and (turn.calls or echo != "calls"):
            thoughts = thoughts_for(self._service, turn.artefacts)
            if thoughts or (turn.calls and echo == "required"):
                message[self._profile.reasoning_fields[0]] = thoughts
        return (with_thoughts(message, self._profile.reasoning_fields[0]) if self._profile.chunks else message,)

    def _call(self, made: InvocationMessage) -> dict[str, Any]:
        call = self.function_call(made, wire_id(made.id, self._profile))
        return call | fields_for(self._service, made.artefacts) if made.artefacts else call

    def results(self, results: tuple[ToolResult, ...]) -> Iterable[dict[str, Any]]:
        yield from map(self.result, results)
        if shown := self.shown_images(results):
            parts = [part for caption, media in shown for part in (self.text(f"{caption}:"), self.content(media))]
            yield {"role": "user", "content": parts}

    def result(self, result: ToolResult) -> dict[str, Any]:
        id = wire_id(result.tool_call_id, self._profile)
        return {"role": "tool", "tool_call_id": id, "content": self.result_text(result)}

    def media(self, media: Media) -> dict[str, Any] | None:
        if media.media_type == "application/pdf" and media.data is not None and self._profile.files:
            return {"type": "file", "file": {"filename": media.name or "file.pdf", "file_data": data_url(media)}}
        return super().media(media)
