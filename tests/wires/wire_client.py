"""The client's side: a model by name, a runner, real tools; and what a conversation means, whatever wire it came by."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from handrail import Conversation, Executor, Policy, Runner
from handrail.core.context import Context
from handrail.core.jsontext import parse_object
from handrail.core.messages import AssistantMessage, InvocationMessage, Message, ResultMessage
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model
from handrail.models.bedrock.transport import BedrockTransport
from handrail.sessions.create import create_llm
from handrail.sessions.llm import LLM
from handrail.testing.model import ScriptedModel
from tests.wires.scripted_service import ScriptedService
from tests.wires.wire_dialogue import WireCase
from tests.wires.wire_scenes import WireScene
from tests.wires.wire_table import WIRES

FREE = Policy(confirm_side_effects=False)
WAYS = {
    f"{wire.name}-{'streamed' if stream else 'whole'}": (wire, stream)
    for wire in WIRES.values()
    for stream in (True, False)
}
every_wire = pytest.mark.parametrize(("wire", "stream"), WAYS.values(), ids=WAYS)


def named(service: ScriptedService, wire: WireCase, stream: bool, converse: BedrockTransport) -> LLM:
    options: dict[str, Any] = {"transport": converse} if wire.service == "bedrock" else dict(wire.options)
    return create_llm(
        wire.service,
        model=wire.model,
        base_url=f"{service.url}/{wire.name}{wire.root}",
        key=None if "token" in options else wire.key,
        tools=wire.tools,
        stream=stream,
        **options,
    )


@asynccontextmanager
async def connected(
    service: ScriptedService, wire: WireCase, stream: bool, converse: BedrockTransport
) -> AsyncIterator[LLM]:
    llm = named(service, wire, stream, converse)
    try:
        yield llm
    finally:
        if wire.service != "bedrock":  # its transport is for all
            await llm.aclose()


class ReferenceRuns:
    """What becomes of a scene without a wire, found out once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Conversation, list[ModelRequest]]] = {}

    async def of(self, scene: WireScene) -> tuple[Conversation, list[ModelRequest]]:
        if scene.id not in self._known:
            script = ScriptedModel(*scene.replies)
            self._known[scene.id] = await played(script, scene), script.requests
        return self._known[scene.id]


async def played(model: Model, scene: WireScene) -> Conversation:
    async with Executor(scene.tools, policy=FREE) as executor:
        return await Runner(model, executor).run(scene.conversation, Context(), tool_choice=scene.choice)


def meaning(message: Message, *, exact: bool) -> Any:
    """What is the same over every wire: not ids, times and counts, nor the space that a text format cannot keep."""
    match message:
        case AssistantMessage(text=text, stop=stop):
            return text if exact else text.strip(), stop
        case InvocationMessage(call=call):
            arguments = call.arguments if isinstance(call.arguments, dict) else parse_object(call.arguments)
            return call.name, arguments
        case ResultMessage(result=result):
            return result.name, result.content, result.outcome, result.warnings
    return message


def told(conversation: Conversation, *, exact: bool = True) -> list[Any]:
    return [meaning(message, exact=exact) for message in conversation.messages]
