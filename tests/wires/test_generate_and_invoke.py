"""Other doors than the runner's, over every wire: `generate`, blocking and not, and calls that must run at once."""

from __future__ import annotations

import asyncio

import pytest

from handrail import Conversation, ToolDefinition, tool
from handrail.core.messages import ResultMessage
from handrail.models.bedrock.transport import BedrockTransport
from handrail.sessions.llm import LLM
from handrail.sessions.tool_requests import ToolCallRequest
from handrail.testing.model import ScriptedModel, call, text
from handrail.tools.registry import registered
from tests.wires.scripted_service import ScenePlay, ScriptedService
from tests.wires.wire_client import connected, every_wire, named, played
from tests.wires.wire_dialogue import WireCase
from tests.wires.wire_scenes import WireScene

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUESTION = "What is 1 + 2?"


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


CLOCK = ToolDefinition("clock.now", "Tell the time.")
TOOLS = (add, CLOCK)


def asks_for_both(reply: str | ToolCallRequest) -> bool:
    assert isinstance(reply, ToolCallRequest)
    return [(each.name, each.arguments) for each in reply.tool_calls] == [("add", {"a": 1}), ("clock.now", {})]


@pytest.mark.requirement("abstractllm.create-llm")
@every_wire
async def test_generate_gives_calls_or_text_blocking_and_not(
    service: ScriptedService, converse: BedrockTransport, wire: WireCase, stream: bool
) -> None:
    replies = ([call("add", a=1), call("clock.now")], [text("Three.")])
    script = ScriptedModel(*replies)
    for _ in replies:
        await LLM(script).generate_async(QUESTION, tools=TOOLS)

    service.play = ScenePlay(wire, stream, script.requests, replies)
    async with connected(service, wire, stream, converse) as llm:
        assert asks_for_both(await llm.generate_async(QUESTION, tools=TOOLS))
        assert await llm.generate_async(QUESTION, tools=TOOLS) == "Three."

    service.play = ScenePlay(wire, stream, script.requests, replies)
    llm = named(service, wire, stream, converse)
    assert asks_for_both(await asyncio.to_thread(llm.generate, QUESTION, tools=TOOLS))
    assert await asyncio.to_thread(llm.generate, QUESTION, tools=TOOLS) == "Three."
    await asyncio.to_thread(llm.portal.close if wire.service == "bedrock" else llm.close)


@pytest.mark.requirement("hearthnet.parallel")
@every_wire
async def test_calls_of_one_reply_run_at_once_and_are_answered_in_their_order(
    service: ScriptedService, converse: BedrockTransport, wire: WireCase, stream: bool
) -> None:
    ended: list[str] = []
    others = asyncio.Event()

    @tool(side_effects=True)
    async def leave(name: str) -> str:
        """Leave the room; the first goes last."""
        if name == "first":
            async with asyncio.timeout(30):
                await others.wait()
        ended.append(name)
        if len(ended) == 2:
            others.set()
        return f"{name} has left"

    replies = ([call("leave", name=name) for name in ("first", "second", "third")], [text("Empty.")])
    scene = WireScene(
        id="leave",
        conversation=Conversation().say("Leave!"),
        tools=registered(leave),
        replies=replies,
        outcomes=("ok", "ok", "ok"),
    )
    script = ScriptedModel(*replies)
    await played(script, scene)
    ended.clear()
    others.clear()

    service.play = ScenePlay(wire, stream, script.requests, replies)
    async with connected(service, wire, stream, converse) as llm:
        conversation = await played(llm.model, scene)

    assert ended == ["second", "third", "first"]
    results = [message.result.content for message in conversation.messages if isinstance(message, ResultMessage)]
    assert results == ["first has left", "second has left", "third has left"]
