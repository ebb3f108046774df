"""A request as generateContent takes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, assert_never
from urllib.parse import quote

from msgspec import Struct

from handrail.core.calls import ToolResult, encode_data
from handrail.core.messages import Artefact, Content, InvocationMessage, Text
from handrail.core.model_request import ModelRequest
from handrail.models.codec import WireRequest
from handrail.models.conversation_cache import WrittenTurns, write_conversation
from handrail.models.gemini.tools import PROVIDER, encode_choice, encode_tools
from handrail.models.history import (
    AssistantTurn,
    ResultTurn,
    SystemTurn,
    Turn,
    UserTurn,
    arguments_of,
    system_text,
    without_system,
)
from handrail.models.profiles import Profile
from handrail.models.reply_layout import CoveredBlock, reply_pieces
from handrail.models.shared_encoding import (
    OPENING,
    add_turn,
    as_media,
    describe_media,
    names_of,
    with_builtin,
    with_extra,
)
from handrail.models.supported_features import supported_tools, unsupported_setting_notices, with_supported_settings
from handrail.models.tool_names import GEMINI_NAMES, NameMap

_TAKEN = ("image/", "audio/", "video/", "text/", "application/pdf")
_VERTEX = "projects/"
"""How the full names of models on Vertex begin, which takes built-in tools beside functions without being told. With
`create_llm` its address has the version, and the codec has none."""
_UNSIGNED = "skip_thought_signature_validator"
"""What Google documents for a call that has no signature, because another model made it."""


PLAIN = Profile(schema="gemini", parallel="fixed", files=True)


class GeminiOptions(Struct, frozen=True, kw_only=True):
    profile: Profile = PLAIN
    version: str = "v1beta"
    """Of the API; empty where the address has it."""
    strict: bool = False
    """Hold calls to their schemas while the model still chooses whether to call (mode VALIDATED)."""


def encode_request(options: GeminiOptions, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
    profile, names = options.profile, names_of(request.tools, GEMINI_NAMES)
    offer = supported_tools(request, profile)
    said = write_conversation(
        request, _write_history, profile, names, provider=PROVIDER, tools_offered=bool(offer.tools)
    )
    known = said.known
    lost: tuple[str, ...] = ()
    body: dict[str, Any] = {"contents": said.items}
    # This wire's choice is about functions only.
    builtin = () if request.tool_choice == "none" else request.builtin_tools
    own = None
    if offer.tools:
        own, lost = encode_tools(offer.tools, names)
        config: dict[str, Any] = {"functionCallingConfig": encode_choice(offer.choice, names, strict=options.strict)}
        if builtin and options.version and not model.startswith(_VERTEX):
            config["includeServerSideToolInvocations"] = True
        body["toolConfig"] = config
    if (tools := with_builtin(own, builtin)) is not None:
        body["tools"] = tools.items
        known = (*known, tools)
    if said.system:
        body["systemInstruction"] = {"parts": [{"text": said.system}]}
    if settings := _settings(with_supported_settings(request, profile)):
        body["generationConfig"] = settings
    place = model if "/" in model else f"models/{model}"
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return WireRequest(
        path=f"{options.version and f'/{options.version}'}/{quote(place)}:{method}",
        body=with_extra(body, request.extra),
        framing="sse" if stream else "json",
        notices=(*offer.notices, *lost, *said.missed, *unsupported_setting_notices(request, profile)),
        known=known,
    )


def _settings(request: ModelRequest) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "maxOutputTokens": request.max_tokens,
        "temperature": request.temperature,
        "topP": request.top_p,
        "seed": request.seed,
        "stopSequences": list(request.stop) or None,
    }
    if request.response_schema is not None:
        settings |= {"responseMimeType": "application/json", "responseJsonSchema": request.response_schema}
    return {key: value for key, value in settings.items() if value is not None}


def _write_history(profile: Profile, names: NameMap, history: tuple[Turn, ...]) -> WrittenTurns:
    system, rest = system_text(history)
    writer = _ContentWriter(profile, names)
    return WrittenTurns(writer.write(without_system(rest)), tuple(writer.missed), system)


class _ContentWriter:
    """Writes turns as contents, and notes what could not be written."""

    def __init__(self, profile: Profile, names: NameMap) -> None:
        self._profile = profile
        self._names = names
        self.missed: list[str] = []

    def write(self, history: Sequence[Turn]) -> list[dict[str, Any]]:
        contents: list[dict[str, Any]] = []
        if not history:
            add_turn(contents, "user", "parts", [{"text": OPENING}])
        for turn in history:
            role = "model" if isinstance(turn, AssistantTurn) else "user"
            add_turn(contents, role, "parts", list(self._parts(turn)))
        return contents

    def _parts(self, turn: Turn) -> Iterable[dict[str, Any]]:
        match turn:
            case UserTurn(content=content):
                return [self._content(part) for part in content if not isinstance(part, Text) or part.text]
            case SystemTurn(text=text):
                return [{"text": text}]
            case AssistantTurn():
                return self._reply(turn)
            case ResultTurn(results=results):
                return self._results(results)
        assert_never(turn)

    def _reply(self, turn: AssistantTurn) -> Iterable[dict[str, Any]]:
        first = True
        for piece in reply_pieces(turn):
            match piece:
                case str():
                    yield {"text": piece}
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
            "functionCall": {
                "id": call.id,
                "name": self._names.to_wire(call.name),
                "args": arguments_of(call),
            }
        }
        signature = _signature(message.artefacts)
        # Of the calls that a reply makes at once, only the first is signed.
        if signature is None and first and self._profile.signed_calls:
            signature = _UNSIGNED
        return part if signature is None else {**part, "thoughtSignature": signature}

    def _results(self, results: Sequence[ToolResult]) -> Iterable[dict[str, Any]]:
        beside: list[dict[str, Any]] = []
        for result in results:
            attached = [self._content(as_media(attachment)) for attachment in result.attachments]
            inside = [part for part in attached if "inlineData" in part] if self._profile.media_in_results else []
            beside += [part for part in attached if part not in inside]
            yield {"functionResponse": self._response(result, inside)}
        yield from beside

    def _response(self, result: ToolResult, media: list[dict[str, Any]]) -> dict[str, Any]:
        content = result.text if result.is_error or _looks_like_schema(result.content) else result.content
        response: dict[str, Any] = {
            "id": result.tool_call_id,
            "name": self._names.to_wire(result.name),
            "response": {"error" if result.is_error else "output": content},
        }
        return {**response, "parts": media} if media else response

    def _content(self, part: Content) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"text": part.text}
        if part.media_type.startswith(_TAKEN) and part.data is not None:
            return {"inlineData": {"mimeType": part.media_type, "data": encode_data(part.data)}}
        if part.media_type.startswith(_TAKEN) and part.url is not None:
            return {"fileData": {"mimeType": part.media_type, "fileUri": part.url}}
        return {"text": describe_media(part, self.missed)}


def _signature(artefacts: Sequence[Artefact]) -> str | None:
    return next((artefact.data["thoughtSignature"] for artefact in artefacts if artefact.provider == PROVIDER), None)


def _looks_like_schema(content: Any) -> bool:
    """Whether a result looks like a JSON Schema: Gemini follows the references in it, and fails."""
    match content:
        case dict():
            return "$ref" in content or "$defs" in content or any(map(_looks_like_schema, content.values()))
        case list():
            return any(map(_looks_like_schema, content))
    return False
