"""Conversations that grow, are cut back and are changed, in all the ways that are hard on a wire."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec import Struct, field
from msgspec.structs import replace

from handrail.core.calls import Attachment, ToolCall, ToolResult
from handrail.core.messages import (
    Artefact,
    AssistantMessage,
    DocumentMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.core.model_request import ModelRequest, ModelScratch, NamedTool, ToolChoice, ToolOffer
from handrail.models.anthropic import AnthropicCodec
from handrail.models.anthropic.encode import PLAIN
from handrail.models.bedrock import BedrockCodec
from handrail.models.codec import Codec, WireRequest
from handrail.models.cohere import CohereCodec
from handrail.models.gemini import GeminiCodec
from handrail.models.interactions import InteractionsCodec
from handrail.models.ollama import OllamaCodec
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.models.openai_responses import OpenAIResponsesCodec
from handrail.models.profiles import profile_for
from handrail.models.prompted.codec import PromptedCodec

CODECS: dict[str, tuple[Codec, str]] = {
    # name                     codec                                                            model
    "openai_chat": (OpenAIChatCodec(), "gpt-4.1"),
    "openai_chat, mistral": (OpenAIChatCodec(server="mistral"), "mistral-large-latest"),
    "openai_chat, deepseek": (OpenAIChatCodec(server="deepseek"), "deepseek-reasoner"),
    "openai_responses": (OpenAIResponsesCodec(), "gpt-4.1"),
    "openai_responses, search": (
        OpenAIResponsesCodec(profile=replace(profile_for("openai", "gpt-4.1"), tool_search=True)),
        "gpt-4.1",
    ),
    "anthropic": (AnthropicCodec(), "claude"),
    "anthropic, cache": (AnthropicCodec(cache=True, strict=True), "claude"),
    "anthropic, search": (AnthropicCodec(profile=replace(PLAIN, tool_search=True), cache=True), "claude"),
    "openai_responses, programs": (OpenAIResponsesCodec(), "gpt-5.6"),
    "anthropic, programs": (AnthropicCodec(profile=profile_for("anthropic", "claude-opus-4-6")), "claude-opus-4-6"),
    "gemini": (GeminiCodec(profile=profile_for("gemini", "gemini-3-pro")), "gemini-3-pro"),
    "interactions": (InteractionsCodec(), "gemini-3-flash"),
    "cohere": (CohereCodec(), "command-a-03-2025"),
    "ollama": (OllamaCodec(), "qwen3"),
    "bedrock": (BedrockCodec(cache=True), "model"),
    "prompted": (PromptedCodec(OpenAIChatCodec()), "gpt-4.1"),
}

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"type": "string", "minLength": 2, "if": {"maxLength": 9}}},
    "required": ["x"],
    "additionalProperties": False,
}
CLOCK = ToolOffer("clock", "Tells the time.", _SCHEMA)
ODD = ToolOffer("io:clock", "", {"type": "object", "properties": {}})
LATER = ToolOffer("later", "Is found.", {"type": "object", "properties": {"a": {"type": "integer"}}}, deferred=True)
PROGRAMMED = replace(CLOCK, by_program=True)
OFFERS: tuple[tuple[ToolOffer, ...], ...] = ((CLOCK,), (CLOCK, ODD), (CLOCK, LATER), (PROGRAMMED, ODD), ())

_BLOCKS: dict[str, tuple[dict[str, Any], ...]] = {
    "openai_chat": ({"reasoning": "hm"},),
    "openai_responses": (
        {"block": {"type": "reasoning", "encrypted_content": "e"}},
        {"block": {"type": "tool_search_call", "id": "t"}, "covers": 9},
        {"block": {"type": "message", "phase": "commentary"}, "covers": 1},
    ),
    "anthropic": (
        {"block": {"type": "thinking", "thinking": "hm", "signature": "s"}},
        {"block": {"type": "server_tool_use", "name": "tool_search_tool_bm25"}, "covers": 9},
        {"block": {"type": "text", "text": "cited \n"}, "chars": 99},
        {"block": {"type": "container", "id": "c", "expires_at": "2100-01-01T00:00:00Z"}, "chars": 99},
    ),
    "gemini": ({"block": {"thoughtSignature": "s"}, "covers": 1},),
    "gemini_interactions": (
        {"block": {"type": "thought", "signature": "c2ln"}},
        {"block": {"type": "google_search_call", "id": "g"}, "chars": 1, "calls": 1},
    ),
    "cohere": ({"block": {"type": "thinking", "thinking": "hm"}}, {"block": {"tool_plan": "Ask."}, "chars": 9}),
    "ollama": ({"thinking": "hm"},),
    "bedrock": ({"block": {"reasoningContent": {"redactedContent": "aG0="}}},),
}
"""What a provider wants back. Some of it stands for the whole text of a reply, and is not sent back to all models."""

ARTEFACTS = [
    tuple(Artefact(provider, blocks[number % len(blocks)]) for provider, blocks in _BLOCKS.items())
    for number in range(4)
]
SIGNED = (
    Artefact("gemini_interactions", {"signature": "t"}),
    Artefact("gemini", {"thoughtSignature": "t"}),
    Artefact("openai_responses", {"namespace": "n"}),
)
BY_PROGRAM = (
    Artefact("anthropic", {"caller": {"type": "code_execution_20260120", "tool_id": "s"}}),
    Artefact("openai_responses", {"caller": {"type": "program", "caller_id": "p"}}),
)

_TEXTS = st.sampled_from(["", " ", "\n", "hm", "two words", "ends in space \n", "é😀"])
_IDS = st.sampled_from(["", "0", "a", "a_2", "functions.clock:0", "functions_clock_0", "i" * 64])
_NAMES = st.sampled_from(["clock", "io:clock", "io_clock", "gone", "later"])
_ARGUMENTS = st.sampled_from(["{}", '{ "x": "ab" }', "{", "[]", ""]) | st.just({"x": "ab"})
_MEDIA = st.sampled_from(
    [
        Media(media_type="image/png", data=b"png", name="i.png"),
        Media(media_type="image/png", url="https://example.org/i.png"),
        Media(media_type="application/pdf", data=b"pdf"),
        Media(media_type="audio/midi", data=b"midi", name="a.mid"),
        Media(media_type="text/plain", data=b"plain"),
    ]
)
_ATTACHED = st.sampled_from(
    [(), (Attachment("i.png", "image/png", b"png"),), (Attachment("a.mid", "audio/midi", b"midi"),)]
)


_ARTEFACTS = st.sampled_from([(), (), *ARTEFACTS])
_CALLS = st.builds(
    InvocationMessage,
    st.builds(ToolCall, _IDS, _NAMES, _ARGUMENTS),
    artefacts=st.sampled_from([(), SIGNED, BY_PROGRAM]),
)


def _users() -> st.SearchStrategy[Message]:
    return st.builds(UserMessage, st.lists(st.builds(Text, _TEXTS) | _MEDIA, max_size=3).map(tuple))


def _results(ids: st.SearchStrategy[str]) -> st.SearchStrategy[Message]:
    content = _TEXTS | st.sampled_from([{"hour": 3}, [1], None, {"$ref": "x"}])
    outcomes = st.sampled_from(["ok", "ok", "failed"])
    return st.builds(ToolResult, ids, _NAMES, content, outcomes, attachments=_ATTACHED).map(ResultMessage)


_MESSAGES: st.SearchStrategy[Message] = st.one_of(
    _users(),
    st.builds(SupervisorMessage, _TEXTS),
    st.builds(DocumentMessage, st.just("notes"), _TEXTS),
    st.builds(AssistantMessage, _TEXTS, artefacts=_ARTEFACTS),
    _CALLS,
    _results(_IDS),
)


@st.composite
def _rounds(draw: st.DrawFn) -> tuple[Message, ...]:
    """A reply with its calls and most of their results, as a run adds them; ids may come again."""
    said = AssistantMessage(draw(_TEXTS), artefacts=draw(_ARTEFACTS))
    calls = draw(st.lists(_CALLS, max_size=3))
    results = [draw(_results(st.just(call.id))) for call in reversed(calls) if draw(st.integers(0, 9))]
    then = [draw(_users())] if draw(st.booleans()) else []
    return (said, *calls, *results, *then)


class GrowingScene(Struct):
    """A conversation, the tools that are on offer, and the choice among them."""

    messages: tuple[Message, ...] = ()
    tools: tuple[ToolOffer, ...] = OFFERS[0]
    choice: ToolChoice = "auto"
    scratch: ModelScratch = field(default_factory=ModelScratch)

    def asked(self, codec: Codec, model: str, *, kept: bool, extra: dict[str, Any] | None = None) -> WireRequest:
        request = ModelRequest(
            messages=self.messages,
            tools=self.tools,
            tool_choice=self.choice if self.tools else "auto",
            scratch=self.scratch if kept else None,
            extra=extra or {},
        )
        return codec.encode(request, model, stream=True)


class SaidStep(Struct, frozen=True):
    messages: tuple[Message, ...]

    def do(self, scene: GrowingScene) -> None:
        scene.messages += self.messages


class CutBackStep(Struct, frozen=True):
    by: int

    def do(self, scene: GrowingScene) -> None:
        scene.messages = scene.messages[: max(len(scene.messages) - self.by, 0)]


class ChangedStep(Struct, frozen=True):
    back: int
    message: Message

    def do(self, scene: GrowingScene) -> None:
        at = max(len(scene.messages) - self.back, 0)
        scene.messages = (*scene.messages[:at], self.message, *scene.messages[at + 1 :])


class OfferedStep(Struct, frozen=True):
    tools: tuple[ToolOffer, ...]
    choice: ToolChoice

    def do(self, scene: GrowingScene) -> None:
        scene.tools, scene.choice = self.tools, self.choice


Step = SaidStep | CutBackStep | ChangedStep | OfferedStep


def steps() -> st.SearchStrategy[list[Step]]:
    """First a conversation that is long enough to be kept, then whatever can happen to it."""
    choices = st.sampled_from(["auto", "auto", "none", "required", NamedTool("clock")])
    said: st.SearchStrategy[Step] = st.builds(SaidStep, _rounds() | st.tuples(_MESSAGES))
    seldom: st.SearchStrategy[Step] = st.one_of(
        st.builds(CutBackStep, st.integers(1, 9)),
        st.builds(ChangedStep, st.integers(1, 12), _MESSAGES),
        st.builds(OfferedStep, st.sampled_from(OFFERS), choices),
    )
    opening: st.SearchStrategy[Step] = st.builds(
        _opening, st.lists(_MESSAGES, max_size=3), st.lists(_rounds(), min_size=2)
    )
    return st.builds(lambda first, rest: [first, *rest], opening, st.lists(said | said | seldom, max_size=8))


def _opening(few: list[Message], rounds: list[tuple[Message, ...]]) -> Step:
    return SaidStep((*few, *(message for each in rounds for message in each)))
