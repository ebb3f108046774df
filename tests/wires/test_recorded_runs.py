"""Whole runs over what services really send: the model is reached by its name, the bytes are recordings."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import Conversation, Executor, Policy, Runner, tool
from handrail.core.context import Context
from handrail.core.messages import ResultMessage
from handrail.sessions.create import create_llm
from handrail.tools.registry import registered
from tests.models.raw_reply_server import serving, streamed
from tests.wires.recording_player import FOLDER


@tool
async def get_weather(location: str) -> str:
    """The weather now."""
    return f"21 degrees in {location}"


@tool
async def clock() -> str:
    """The time."""
    return "12:00"


async def run(service: str, *names: str) -> tuple[Conversation, list[dict[str, Any]]]:
    """A question put to a service that answers with these recordings; the conversation, and what was asked."""
    replies = [streamed((FOLDER / "openai_chat" / f"{name}.sse").read_bytes()) for name in names]
    async with serving(*replies) as server:
        llm = create_llm(service, base_url=server.url, key="a-key-of-the-test")
        try:
            async with Executor(registered(get_weather, clock), policy=Policy(confirm_side_effects=False)) as executor:
                said = await Runner(llm.model, executor).run(Conversation().say("Weather in Lisbon?"), Context())
        finally:
            await llm.aclose()
        return said, [asked.json for asked in server.asked]


def outcomes(conversation: Conversation) -> list[str]:
    return [message.result.outcome for message in conversation.messages if isinstance(message, ResultMessage)]


async def test_a_run_goes_on_after_a_call_that_groq_refused() -> None:
    said, asked = await run(
        "groq:openai/gpt-oss-120b", "groq-tool-use-failed-stream", "groq-call-stream", "openai-text-stream"
    )
    assert outcomes(said) == ["invalid_arguments", "ok"]
    assert said.text == "It is 21 degrees in Lisbon."
    assert "location" in asked[1]["messages"][-1]["content"]


async def test_a_run_over_a_service_that_never_says_why_it_ends_comes_to_its_end() -> None:
    said, asked = await run("compatible:claude-sonnet-4-6", "snowflake-call-stream", "snowflake-text-stream")
    assert outcomes(said) == ["ok"]
    assert said.text == "It is 21 degrees in Lisbon."
    assert asked[1]["messages"][1]["reasoning_details"][0]["signature"] == "EvABCmcIDxABGAIq"


@pytest.mark.parametrize(
    ("service", "name", "field"),
    [
        ("openrouter:anthropic/claude-sonnet-4.5", "openrouter-call-stream", "reasoning_details"),
        ("deepseek:deepseek-reasoner", "deepseek-call-stream", "reasoning_content"),
        ("kimi:kimi-k2-thinking", "moonshot-call-stream", "reasoning_content"),
        ("zai:glm-4.7", "zai-call-stream", "reasoning_content"),
    ],
)
async def test_thoughts_go_back_with_the_result_of_the_call_they_led_to(service: str, name: str, field: str) -> None:
    said, asked = await run(service, name, "openai-text-stream")
    assert outcomes(said) == ["ok"]
    assert field in asked[1]["messages"][1]


async def test_the_signature_of_a_call_goes_back_to_gemini_over_chat() -> None:
    _, asked = await run("compatible:gemini-3-pro-preview", "gemini-calls-stream", "openai-text-stream")
    first, second = asked[1]["messages"][1]["tool_calls"]
    assert first["extra_content"] == {"google": {"thought_signature": "AVSoXO4AzAXs7GGv"}}
    assert "extra_content" not in second
