"""A model by name: every service asks and answers alike; mistakes are told before anything is sent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from handrail import ToolDefinition
from handrail.core.errors import ModelUnavailable, UsageError
from handrail.models.retry_policy import RetryPolicy
from handrail.models.services import SERVICES
from handrail.sessions.create import GROUP, create_llm, service_names
from handrail.sessions.tool_requests import ToolCallRequest
from handrail.testing.model import ScriptedModel, text
from tests.sessions.wire_replies import CALLS, OBJECT, TEXTS, OneReply

WIRES = {
    "openai-responses": "responses",
    "azure-responses": "responses",
    "gemini-interactions": "interactions",
    "vertex": "gemini",
    "vertex-anthropic": "anthropic",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "cohere": "cohere",
    "ollama": "ollama",
    "bedrock": "bedrock",
}
"""Every other service speaks Chat Completions."""
PLACES: dict[str, dict[str, str]] = {
    "azure": {"resource": "shop"},
    "azure-responses": {"resource": "shop"},
    "vertex": {"project": "shop"},
    "vertex-anthropic": {"project": "shop"},
}
"""Services that have another address for each customer."""
KEYS = (
    "API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AZURE_OPENAI_ENDPOINT",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_LOCATION",
)
NATIVE = [name for name in SERVICES if name not in ("minicpm-v", "compatible")]


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test must not find the keys of whoever runs it."""
    for name in list(os.environ):
        if name.endswith(KEYS):
            monkeypatch.delenv(name)


def get_weather(location: str, unit: str = "celsius") -> str:
    """Get the current weather for a location."""
    return f"The weather in {location} is sunny and 25°{unit}"


FORMS: list[Any] = [get_weather, ToolDefinition.from_function(get_weather)]


@pytest.mark.requirement("abstractllm.create-llm")
@pytest.mark.parametrize("form", FORMS, ids=["function", "definition"])
@pytest.mark.parametrize("name", NATIVE)
def test_every_service_asks_for_a_tool_and_the_calls_can_be_run(name: str, form: Any) -> None:
    transport = OneReply(CALLS[WIRES.get(name, "chat")])
    with create_llm(name, model="m-1", key="k", transport=transport, stream=False, **PLACES.get(name, {})) as llm:
        reply = llm.generate("What's the weather in Paris?", tools=[form])

    assert isinstance(reply, ToolCallRequest)
    [call] = reply.tool_calls
    assert (call.name, call.arguments) == ("get_weather", OBJECT)
    assert "get_weather" in json.dumps(transport.requests[0].body)
    reply.execute_tool_calls({"get_weather": get_weather})
    assert call.result == "The weather in Paris is sunny and 25°celsius"
    assert transport.closed


@pytest.mark.requirement("abstractllm.create-llm")
@pytest.mark.parametrize("name", NATIVE)
async def test_every_service_answers_with_text_awaited_too(name: str) -> None:
    transport = OneReply(TEXTS[WIRES.get(name, "chat")])
    async with create_llm(f"{name}:m-1", key="k", transport=transport, stream=False, **PLACES.get(name, {})) as llm:
        assert await llm.generate_async("Hello?") == "Hello"
        assert llm.name == "m-1"

    assert transport.endpoints[0].base_url.startswith(("https://", "http://localhost"))


def test_a_model_whose_profile_says_so_has_its_calls_written_as_text() -> None:
    written = f'<tool_call>\n{{"name": "get_weather", "arguments": {json.dumps(OBJECT)}}}\n</tool_call>'
    document = {**TEXTS["chat"], "choices": [{"index": 0, "finish_reason": "stop"}]}
    document["choices"][0]["message"] = {"role": "assistant", "content": written}
    transport = OneReply(document)

    with create_llm("minicpm-v", model="openbmb/MiniCPM-V-4", transport=transport, stream=False) as llm:
        reply = llm.generate("?", tools=[get_weather])
    with create_llm("openai:gpt-x", key="k", tools="prompted:hermes", transport=transport, stream=False) as llm:
        asked = llm.generate("?", tools=[get_weather])

    assert isinstance(reply, ToolCallRequest)
    assert isinstance(asked, ToolCallRequest)
    assert reply.tool_calls[0].arguments == asked.tool_calls[0].arguments == OBJECT
    assert all("tools" not in request.body for request in transport.requests)


def test_a_profile_can_be_overruled() -> None:
    transport = OneReply(CALLS["chat"])

    with create_llm("minicpm-v:MiniCPM-V-4", tools="native", transport=transport, stream=False) as llm:
        llm.generate("?", tools=[get_weather])

    assert len(transport.requests[0].body["tools"]) == 1


def test_the_key_of_the_environment_goes_to_its_own_service_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-env")
    monkeypatch.setenv("OTHER", "named")
    sent: list[str | None] = []
    for given in ({}, {"base_url": "http://localhost:1/v1"}, {"base_url": "http://localhost:1/v1", "key": "env:OTHER"}):
        transport = OneReply(TEXTS["chat"])
        with create_llm("openai:m", transport=transport, stream=False, **given) as llm:
            llm.generate("?")
        sent.append(transport.endpoints[0].key)

    assert sent == ["from-env", None, "named"]


def test_keys_are_in_the_header_that_each_service_wants() -> None:
    headers = {}
    for name in ("openai", "anthropic", "gemini"):
        transport = OneReply(TEXTS[WIRES.get(name, "chat")])
        with create_llm(name, model="m", key="k", transport=transport, stream=False) as llm:
            llm.generate("?")
        [endpoint], [request] = transport.endpoints, transport.requests
        headers[name] = [header for header, value in endpoint.sent(request).items() if value in ("k", "Bearer k")]

    assert headers == {"openai": ["authorization"], "anthropic": ["x-api-key"], "gemini": ["x-goog-api-key"]}


def test_the_region_is_part_of_bedrocks_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    transport = OneReply(TEXTS["bedrock"])

    with create_llm("bedrock:m", transport=transport, stream=False) as llm:
        llm.generate("?")

    assert transport.endpoints[0].base_url == "https://bedrock-runtime.eu-west-1.amazonaws.com"


def test_a_region_can_be_given_with_an_address_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)

    with (
        create_llm(
            "bedrock:m", base_url="http://127.0.0.1:1", region="eu-west-3", retry=RetryPolicy(attempts=1)
        ) as llm,
        pytest.raises(ModelUnavailable),
    ):
        llm.generate("?")


def test_settings_go_into_every_request() -> None:
    transport = OneReply(TEXTS["chat"])

    with create_llm("vllm:m", transport=transport, stream=False, temperature=0.25, max_tokens=7) as llm:
        llm.generate("?")

    body = transport.requests[0].body
    assert (body["temperature"], body["max_tokens"]) == (0.25, 7)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "opnai", "model": "m"}, "did you mean 'openai'"),
        ({"name": "nobody"}, "anthropic"),
        ({"name": "openai", "key": "k"}, "needs a model"),
        ({"name": "openai:a", "model": "b"}, "twice"),
        ({"name": "openai:m"}, "OPENAI_API_KEY"),
        ({"name": "compatible:m"}, "base_url"),
        ({"name": "vllm:m", "strictness": 3}, "no option 'strictness'"),
        ({"name": "vllm:m", "region": "eu-west-3"}, "no option 'region'"),
        ({"name": "local", "temprature": 0}, "'local' has no option 'temprature'; did you mean 'temperature'"),
        ({"name": "local:/nowhere/model.gguf"}, "/nowhere/model.gguf"),
    ],
)
def test_a_mistake_is_told_at_once_with_what_to_do(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        create_llm(**arguments)


def make_echo(*, model: str, **options: Any) -> ScriptedModel:
    return ScriptedModel([text(f"{options['greeting']} from {model}")], name=model)


def test_another_package_may_add_a_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "echo-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: echo\nVersion: 1\n")
    (installed / "entry_points.txt").write_text(f"[{GROUP}]\necho = tests.sessions.test_create:make_echo\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert "echo" in service_names()
    with create_llm("echo:e-1", greeting="Hello") as llm:
        assert llm.generate("?") == "Hello from e-1"
