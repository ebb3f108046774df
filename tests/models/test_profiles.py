"""Facts about services and families are data, and a mistake in them is told with its place."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import handrail.models
from handrail.core.errors import ConfigError
from handrail.core.messages import Usage
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.models.profiles import Prices, Profile, known_services, profile_for, read_profile_file
from tests.models.openai_chat.conversation_fixtures import CONVERSATION, TOOLS, replied, request_with
from tests.models.openai_chat.sdk_checks import check_chat
from tests.models.openai_chat.streams import TWO_CALLS

COMPATIBLE = (
    ("vllm", "Qwen/Qwen3-32B"),
    ("llamacpp", "default"),
    ("lmstudio", "openai/gpt-oss-20b"),
    ("nemotron", "nvidia/llama-3.3-nemotron-super-49b-v1.5"),
    ("openbmb", "openbmb/MiniCPM4.1-8B"),
    ("deepseek", "deepseek-chat"),
    ("kimi", "kimi-k2-thinking"),
    ("qwen", "qwen-plus"),
    ("mistral", "mistral-large-latest"),
)


PLANNED = (
    "openai ollama vllm llamacpp lmstudio nemotron minicpm-v openbmb deepseek kimi qwen mistral "
    "anthropic gemini bedrock cohere local zai"
)


def test_every_service_of_the_plan_has_its_facts() -> None:
    assert set(known_services()) == set(PLANNED.split())


@pytest.mark.requirement("hearthnet.backends.compatible")
@pytest.mark.parametrize(("server", "model"), COMPATIBLE)
def test_a_compatible_server_takes_the_same_conversation_and_gives_the_same_calls(server: str, model: str) -> None:
    codec = OpenAIChatCodec(server=server)
    body = codec.encode(request_with(*CONVERSATION, tools=TOOLS, max_tokens=5), model, stream=True).body
    assert len(body["tools"]) == 2
    extra = {"reasoning_content", "random_seed"}
    check_chat({**body, "messages": [{k: v for k, v in said.items() if k not in extra} for said in body["messages"]]})
    assert [call.name for call in replied(codec, TWO_CALLS).calls] == ["get_weather", "io:plot"]


@pytest.mark.requirement("hearthnet.backends.compatible")
@pytest.mark.parametrize(
    ("server", "model", "tools", "text_format", "images"),
    [
        ("vllm", "openbmb/MiniCPM-V-4_5", "prompted", "hermes", True),
        ("ollama", "minicpm-v:8b", "prompted", "hermes", True),
        ("vllm", "openbmb/MiniCPM4.1-8B", "native", "pythonic", False),
        ("vllm", "nvidia/NVIDIA-Nemotron-Nano-9B-v2", "native", "nemotron", False),
        ("vllm", "nvidia/NVIDIA-Nemotron-Nano-12B-v2-VL-BF16", "native", "nemotron", True),
        ("ollama", "deepseek-r1:8b", "prompted", "json", False),
        ("lmstudio", "qwen2.5-7b-instruct", "native", "hermes", False),
        ("lmstudio", "qwen2.5-vl-7b-instruct", "native", "hermes", True),
        ("somewhere", "some-model", "native", "json", True),
    ],
)
def test_a_family_is_known_wherever_it_is_served(
    server: str, model: str, tools: str, text_format: str, images: bool
) -> None:
    profile = profile_for(server, model)
    assert (profile.tools, profile.prompted_format, profile.images) == (tools, text_format, images)


def test_the_rule_that_fixes_more_of_the_name_wins() -> None:
    assert profile_for("openai", "gpt-4o-mini-2024-07-18").prices == Prices(input=0.15, output=0.6, cached=0.075)
    assert profile_for("openai", "gpt-4o-2024-08-06").prices == Prices(input=2.5, output=10, cached=1.25)
    assert profile_for("openai", "gpt-9").prices is None
    assert profile_for("openai", "gpt-9").encrypted_reasoning


def test_the_cost_is_that_of_fresh_and_cached_input_and_of_output() -> None:
    usage = Usage(input_tokens=1_000_000, cached_tokens=400_000, output_tokens=100_000)
    written = Usage(input_tokens=1_000_000, cache_written_tokens=1_000_000)
    assert profile_for("anthropic", "claude-sonnet-4-5").cost(written) == pytest.approx(3.75)
    assert profile_for("openai", "gpt-4.1").cost(usage) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.1 * 8)
    assert Profile().cost(usage) is None


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[facts]\nstrikt = true", "facts"),
        ("[facts]\nimages = 'yes'", "facts"),
        ("[[model]]\nmatch = 'a'\n[[model]]\nmatch = 'b'\nprices = {input = 1}", "model 2"),
        ("[[family]]\nimages = true", "family 1"),
        ("[[family]]\nmatch = '('", "family 1"),
        ("[fact]\nimages = true", "fact"),
        ("facts = ", None),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, key: str | None) -> None:
    with pytest.raises(ConfigError) as refused:
        read_profile_file(text, "x.toml")
    assert (refused.value.file, refused.value.key) == ("x.toml", key)


def test_every_fact_is_asked_for_somewhere_in_the_code() -> None:
    root = Path(handrail.models.__file__).parents[1]
    asked = {
        node.attr
        for file in root.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
    }
    assert set(Profile.__struct_fields__) <= asked
