"""A request as Cohere's `/v2/chat` takes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from handrail.core.calls import ToolResult
from handrail.core.errors import UsageError
from handrail.core.messages import InvocationMessage
from handrail.core.model_request import ModelRequest
from handrail.models.chat_messages import ChatTurnWriter, function_tools, json_instruction
from handrail.models.codec import WireRequest
from handrail.models.history import AssistantTurn
from handrail.models.profiles import Profile
from handrail.models.reply_layout import CoveredBlock, reply_pieces
from handrail.models.request_draft import RequestDraft
from handrail.models.shared_encoding import as_media, describe_media
from handrail.models.standard_codec import StandardCodec
from handrail.models.tool_names import COHERE_NAMES

PROVIDER = "cohere"
PLAN = "tool_plan"
"""The key of an artefact that holds a plan: it goes back beside the calls, not in the content."""
_SETTINGS = {
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "p",
    "stop": "stop_sequences",
    "seed": "seed",
}
PLAIN = Profile(tool_choice=("auto", "none", "required"), parallel="fixed", images=False)


class CohereOptions(StandardCodec, frozen=True, kw_only=True):
    profile: Profile = PLAIN
    strict: bool = False
    """Hold calls to their schemas (`strict_tools`). Each tool must then have a required argument."""
    citations: Literal["fast", "accurate", "off"] | None = None
    """How the reply names its sources; without it, the service decides."""


def encode_request(options: CohereOptions, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
    if request.builtin_tools:
        raise UsageError("builtin= has no effect here: Cohere's Chat API runs no tools itself; leave out builtin=")
    draft = RequestDraft(request, options.profile, COHERE_NAMES)
    said = draft.write(_MessageWriter, provider=PROVIDER)
    body: dict[str, Any] = {"model": model, "stream": stream}
    if draft.tools:
        draft.put_tools(body, function_tools(draft.tools, draft.names, options.profile, False))
        if isinstance(draft.offer.choice, str) and draft.offer.choice != "auto":
            body["tool_choice"] = draft.offer.choice.upper()
        if options.strict:
            body["strict_tools"] = True
    if options.citations is not None:
        body["citation_options"] = {"mode": options.citations.upper()}
    body |= draft.settings(_SETTINGS)
    if request.response_schema is not None:
        if draft.tools:
            draft.notices.append(
                "this service holds no reply to a schema while tools are offered; the model is asked to"
            )
            draft.said = said = said.after(json_instruction(request.response_schema))
        else:
            body["response_format"] = {"type": "json_object", "json_schema": request.response_schema}
    body["messages"] = said.items
    return draft.finish("/v2/chat", body, stream=stream, exact=False)


class _MessageWriter(ChatTurnWriter):
    def reply(self, turn: AssistantTurn) -> Iterable[dict[str, Any]]:
        message: dict[str, Any] = {"role": "assistant"}
        content: list[dict[str, Any]] = []
        for piece in reply_pieces(turn):
            match piece:
                case str():
                    content.append(self.text(piece))
                case CoveredBlock(block={"tool_plan": plan}):
                    message[PLAN] = plan
                case CoveredBlock(block=block):
                    content.append(block)
                case InvocationMessage():
                    message.setdefault("tool_calls", []).append(self.function_call(piece, piece.id))
        yield {**message, "content": content} if content else message

    def result(self, result: ToolResult) -> dict[str, Any]:
        """A result is a document, so that the reply can cite it."""
        content: list[dict[str, Any]] = [{"type": "document", "document": {"data": _data(result)}}]
        for attachment in result.attachments:
            content.append(self.text(describe_media(as_media(attachment), self.missed)))
        return {"role": "tool", "tool_call_id": result.tool_call_id, "content": content}


def _data(result: ToolResult) -> dict[str, Any]:
    if result.is_error:
        return {"error": result.text}
    if isinstance(result.content, dict) and result.content:
        return result.content
    return {"output": result.text}
