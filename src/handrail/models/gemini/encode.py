"""A request as generateContent takes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never
from urllib.parse import quote

from handrail.core.calls import ToolResult, encode_data
from handrail.core.messages import InvocationMessage, Media
from handrail.core.model_request import ModelRequest
from handrail.models.codec import WireRequest
from handrail.models.gemini.tools import PROVIDER, declarations, encode_choice, signature_of, split_attachments
from handrail.models.history import AssistantTurn, arguments_of
from handrail.models.profiles import Profile
from handrail.models.reply_layout import CoveredBlock, reply_pieces
from handrail.models.reply_schemas import gemini_reply_schema
from handrail.models.request_draft import RequestDraft
from handrail.models.standard_codec import StandardCodec
from handrail.models.supported_features import schema_loss_notices
from handrail.models.tool_names import GEMINI_NAMES
from handrail.models.turn_writer import AlternatingWriter

_SETTINGS = {
    "max_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "seed": "seed",
    "stop": "stopSequences",
}
_TAKEN = ("image/", "audio/", "video/", "text/", "application/pdf")
_VERTEX = "projects/"
"""How the full names of models on Vertex begin, which takes built-in tools beside functions without being told. With
`create_llm` its address has the version, and the codec has none."""
_UNSIGNED = "skip_thought_signature_validator"
"""What Google documents for a call that has no signature, because another model made it."""


PLAIN = Profile(schema="gemini", parallel="fixed", files=True)


class GeminiOptions(StandardCodec, frozen=True, kw_only=True):
    profile: Profile = PLAIN
    version: str = "v1beta"
    """The API version in the path; empty when the base address already has it."""
    strict: bool = False
    """Hold calls to their schemas while the model still chooses whether to call (mode VALIDATED)."""


def encode_request(options: GeminiOptions, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
    draft = RequestDraft(request, options.profile, GEMINI_NAMES)
    said = draft.write(_ContentWriter, provider=PROVIDER)
    body: dict[str, Any] = {"contents": said.items}
    # This wire's choice is about functions only.
    builtin = () if request.tool_choice == "none" else request.builtin_tools
    if draft.tools:
        mode, allowed = encode_choice(draft.offer.choice, draft.names, strict=options.strict)
        choice: dict[str, Any] = {"mode": mode.upper()}
        if allowed:
            choice["allowedFunctionNames"] = allowed
        config: dict[str, Any] = {"functionCallingConfig": choice}
        if builtin and options.version and not model.startswith(_VERTEX):
            config["includeServerSideToolInvocations"] = True
        body["toolConfig"] = config
    draft.put_tools(body, declarations(draft.tools, draft.names) if draft.tools else None, builtin)
    if said.system:
        body["systemInstruction"] = {"parts": [{"text": said.system}]}
    settings = draft.settings(_SETTINGS)
    if request.response_schema is not None:
        shape = gemini_reply_schema(request.response_schema)
        draft.notices += schema_loss_notices("response_schema", shape.lost)
        settings |= {"responseMimeType": "application/json", "responseJsonSchema": shape.schema}
    if settings:
        body["generationConfig"] = settings
    place = model if "/" in model else f"models/{model}"
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    path = f"{options.version and f'/{options.version}'}/{quote(place)}:{method}"
    return draft.finish(path, body, stream=stream)


class _ContentWriter(AlternatingWriter):
    model_role = "model"
    key = "parts"

    def reply(self, turn: AssistantTurn) -> Iterable[dict[str, Any]]:
        first = True
        for piece in reply_pieces(turn):
            match piece:
                case str():
                    yield self.text(piece)
                case CoveredBlock(block=block, text=text):
                    yield {"text": text, **block} if block.keys() == {"thoughtSignature"} else block
                case InvocationMessage():
                    yield self._call(piece, first=first)
                    first = False
                case _:
                    assert_never(piece)

    def _call(self, message: InvocationMessage, *, first: bool) -> dict[str, Any]:
        call = message.call
        part: dict[str, Any] = {
            "functionCall": {"id": call.id, "name": self._names.to_wire(call.name), "args": arguments_of(call)}
        }
        signature = signature_of(message, PROVIDER, "thoughtSignature")
        # Of the calls that a reply makes at once, only the first is signed.
        if signature is None and first and self._profile.signed_calls:
            signature = _UNSIGNED
        return part if signature is None else {**part, "thoughtSignature": signature}

    def results(self, results: tuple[ToolResult, ...]) -> Iterable[dict[str, Any]]:
        beside: list[dict[str, Any]] = []
        for result in results:
            response = self.result(result)
            if result.attachments:
                attached = self.attached(result)
                if inside := split_attachments(attached, beside, lambda part: "inlineData" in part, self._profile):
                    response["parts"] = inside
            yield {"functionResponse": response}
        yield from beside

    def result(self, result: ToolResult) -> dict[str, Any]:
        content = result.text if result.is_error or _looks_like_schema(result.content) else result.content
        return {
            "id": result.tool_call_id,
            "name": self._names.to_wire(result.name),
            "response": {"error" if result.is_error else "output": content},
        }

    def text(self, text: str) -> dict[str, Any]:
        return {"text": text}

    def media(self, media: Media) -> dict[str, Any] | None:
        if not media.media_type.startswith(_TAKEN):
            return None
        if media.data is not None:
            return {"inlineData": {"mimeType": media.media_type, "data": encode_data(media.data)}}
        return {"fileData": {"mimeType": media.media_type, "fileUri": media.url}} if media.url is not None else None


def _looks_like_schema(content: Any) -> bool:
    """Whether a result looks like a JSON Schema: Gemini follows the references in it, and fails."""
    match content:
        case dict():
            return "$ref" in content or "$defs" in content or any(map(_looks_like_schema, content.values()))
        case list():
            return any(map(_looks_like_schema, content))
    return False
