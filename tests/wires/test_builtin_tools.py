"""Tools that a service runs itself, offered beside one's own: `create_llm(…, builtin=[…])`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from handrail import Session, create_llm, tool
from handrail.app.models import open_model
from handrail.config.load import load_config
from handrail.core.errors import UsageError
from handrail.core.events import CitationAdded, MediaAdded, ServiceCallMade
from handrail.core.messages import AssistantMessage
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.models.codec import Codec
from handrail.models.gemini import GeminiCodec
from handrail.models.ollama import OllamaCodec
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.models.prompted.codec import PromptedCodec
from tests.models.anthropic.sdk_checks import accepts as anthropic_accepts
from tests.models.bedrock.botocore_checks import accepts as bedrock_accepts
from tests.models.gemini.sdk_checks import accepts as gemini_accepts
from tests.models.openai_chat.sdk_checks import check_responses
from tests.models.raw_reply_server import serving, streamed
from tests.models.reply_rounds import WEATHER, asked
from tests.wires.recorded_replies import CODECS
from tests.wires.recording_player import FOLDER

BUILTIN: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
    "bedrock": {"systemTool": {"name": "nova_grounding"}},
    "gemini": {"googleSearch": {}},
    "openai_chat": {"type": "openrouter:web_search"},
    "openai_responses": {"type": "web_search", "search_context_size": "low"},
}


def body(wire: str, tools: tuple[ToolOffer, ...], **settings: Any) -> dict[str, Any]:
    codec, model = CODECS[wire]
    return codec.encode(asked(tools=tools, builtin_tools=(BUILTIN[wire],), **settings), model, stream=True).body


def offered(sent: dict[str, Any]) -> list[dict[str, Any]]:
    return list((sent.get("toolConfig", {}) if "tools" not in sent else sent).get("tools", ()))


def judged(wire: str, sent: dict[str, Any]) -> None:
    match wire:
        case "anthropic":
            assert anthropic_accepts(sent)
        case "bedrock":
            assert bedrock_accepts(sent)
        case "gemini":
            assert gemini_accepts(sent)
        case "openai_responses":
            check_responses(sent)


@pytest.mark.parametrize("wire", sorted(BUILTIN))
def test_they_are_offered_beside_ones_own(wire: str) -> None:
    sent = body(wire, (WEATHER,))
    assert len(offered(sent)) == 2
    assert BUILTIN[wire] in offered(sent)
    assert "get_weather" in str(offered(sent))
    judged(wire, sent)


@pytest.mark.parametrize("wire", sorted(BUILTIN))
def test_they_are_offered_alone(wire: str) -> None:
    sent = body(wire, ())
    assert offered(sent) == [BUILTIN[wire]]
    judged(wire, sent)


@pytest.mark.parametrize("wire", sorted(BUILTIN))
def test_no_tool_may_be_called_where_none_is_the_choice(wire: str) -> None:
    sent = body(wire, (), tool_choice="none")
    assert not offered(sent) or sent["tool_choice"] in ("none", {"type": "none"})


def test_gemini_is_asked_to_show_its_calls_beside_ours_but_not_on_vertex() -> None:
    assert body("gemini", (WEATHER,))["toolConfig"]["includeServerSideToolInvocations"] is True
    assert "toolConfig" not in body("gemini", ())
    codec, _ = CODECS["gemini"]
    request = asked(tools=(WEATHER,), builtin_tools=(BUILTIN["gemini"],))
    vertex = codec.encode(request, "projects/p/locations/global/publishers/google/models/gemini-3-pro", stream=True)
    assert "includeServerSideToolInvocations" not in vertex.body["toolConfig"]
    placed = GeminiCodec(version="").encode(request, "gemini-3-pro", stream=True)
    assert "includeServerSideToolInvocations" not in placed.body["toolConfig"]


@pytest.mark.parametrize(
    "codec", [OllamaCodec(), OpenAIChatCodec(), PromptedCodec(OpenAIChatCodec(server="vllm"), "hermes")]
)
def test_a_wire_that_has_none_says_so(codec: Codec) -> None:
    with pytest.raises(UsageError, match="builtin="):
        codec.encode(asked(builtin_tools=({"type": "web_search"},)), "m", stream=True)


@pytest.mark.parametrize("wire", [*sorted(CODECS), "ollama"])
def test_extra_tools_do_not_silently_replace_the_applications_own(wire: str) -> None:
    codec, model = CODECS.get(wire) or (OllamaCodec(), "qwen3")
    extra: dict[str, Any] = {"toolConfig": {"tools": []}} if wire == "bedrock" else {"tools": [{"type": "web_search"}]}
    with pytest.raises(UsageError, match=r"builtin=\["):
        codec.encode(asked(tools=(WEATHER,), extra=extra), model, stream=True)


def test_what_is_no_list_of_tools_is_refused_at_once() -> None:
    for wrong in ("web_search", {"type": "web_search"}, ["web_search"], 7):
        with pytest.raises(UsageError, match="builtin is a list"):
            create_llm("openai-responses:gpt-5", key="k", builtin=wrong)
    llm = create_llm("openai-responses:gpt-5", key="k", builtin=[{"type": "web_search"}])
    assert llm.defaults == ModelRequest(messages=(), builtin_tools=({"type": "web_search"},))


async def test_a_session_offers_both_and_its_message_has_what_the_service_did() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    reply = (FOLDER / "openai_responses/code-interpreter-stream.sse").read_bytes()
    async with serving(streamed(reply)) as server:
        llm = create_llm(
            "openai-responses:gpt-5-mini", key="k", base_url=server.url, builtin=[{"type": "code_interpreter"}]
        )
        async with Session(llm, tools=[add]) as session:
            seen = [event async for event in session.stream_async("Roll two dice.")]
            message = session.conversation.messages[-1]
    assert [each.get("name") or each["type"] for each in json.loads(server.asked[0].body)["tools"]] == [
        "code_interpreter",
        "add",
    ]
    assert isinstance(message, AssistantMessage)
    assert [call.name for call in message.service_calls] == ["code_interpreter"]
    assert [each.title for each in message.citations] == ["sums.txt"]
    assert len(message.media) == 1
    shown = [event for event in seen if isinstance(event, CitationAdded | MediaAdded | ServiceCallMade)]
    assert len(shown) == 3


def test_a_model_of_the_configuration_has_them_among_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOUSE_KEY", "k")
    file = tmp_path / "handrail.toml"
    file.write_text(
        '[models.search]\nprovider = "openai-responses"\nmodel = "gpt-5-mini"\nkey = "env:HOUSE_KEY"\n'
        'options = { builtin = [{ type = "web_search" }] }\n'
    )
    llm = open_model(load_config(file, {}), "search")
    assert llm.defaults.builtin_tools == ({"type": "web_search"},)
