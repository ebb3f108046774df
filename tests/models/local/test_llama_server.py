"""Our codecs against a real server: llama.cpp's own, on loopback, with the embedded weights."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.events import CallRequested, ModelEvent, ReplyFinished, TextDelta
from handrail.core.jsontext import parse_object
from handrail.core.messages import InvocationMessage, ResultMessage, Text, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.models.anthropic import AnthropicCodec
from handrail.models.codec import Codec
from handrail.models.codec_model import CodecModel
from handrail.models.local.weights import EngineFiles
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.models.transport import Endpoint, HttpTransport, Transport
from tests.models.local.llama_server import model_server
from tests.models.local.measured_requests import DESK

CODECS: dict[str, tuple[Codec, str]] = {
    "openai": (OpenAIChatCodec(server="llamacpp"), "/v1"),
    "anthropic": (AnthropicCodec(), ""),
}


@pytest.fixture(scope="module")
def address(files: EngineFiles) -> Iterator[str]:
    with model_server(files) as address:
        yield address


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    transport = HttpTransport()
    yield transport
    await transport.aclose()


async def _reply(model: CodecModel, request: ModelRequest) -> list[ModelEvent]:
    async with aclosing(model.stream(request)) as events:
        return [event async for event in events]


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("wire", CODECS)
async def test_a_call_and_the_answer_to_its_result(
    address: str, transport: Transport, wire: str, streamed: bool
) -> None:
    codec, base = CODECS[wire]
    model = CodecModel(codec, transport, Endpoint(f"{address}{base}"), "smollm2", stream=streamed)
    asked = UserMessage((Text("What is 17 plus 25?"),))
    settings: dict[str, Any] = {"tools": DESK, "max_tokens": 64, "temperature": 0.0}
    events = await _reply(model, ModelRequest(messages=(asked,), **settings))
    (call,) = [event.call for event in events if isinstance(event, CallRequested)]
    assert (call.name, parse_object(str(call.arguments))) == ("add", {"a": 17, "b": 25})
    assert isinstance(events[-1], ReplyFinished) and events[-1].stop == "tool_calls"

    result = ResultMessage(ToolResult(call.id, "add", content="42", outcome="ok"))
    history = (asked, InvocationMessage(ToolCall(call.id, "add", call.arguments)), result)
    events = await _reply(model, ModelRequest(messages=history, **settings))
    assert "42" in "".join(event.text for event in events if isinstance(event, TextDelta))
    assert isinstance(events[-1], ReplyFinished) and events[-1].usage.output_tokens > 0
