"""One whole reply in each wire, and a transport that gives it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from handrail.models.codec import WireRequest
from handrail.models.transport import Endpoint
from handrail.models.wire_events import WireEvent

ARGUMENTS = '{"location": "Paris"}'
OBJECT = {"location": "Paris"}
CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": ARGUMENTS}}


def _chat(message: dict[str, Any], finish: str) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "r", "object": "chat.completion", "model": "m", "choices": [choice]}


def _responses(*output: dict[str, Any]) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return {
        "id": "r",
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": list(output),
        "usage": usage,
    }


def _anthropic(block: dict[str, Any], stop: str) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    body = {"id": "r", "type": "message", "role": "assistant", "model": "m", "content": [block], "usage": usage}
    return {**body, "stop_reason": stop}


def _gemini(part: dict[str, Any]) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}]}


def _ollama(message: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", **message}, "done": True, "done_reason": "stop"}


def _bedrock(block: dict[str, Any], stop: str) -> dict[str, Any]:
    usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    return {"output": {"message": {"role": "assistant", "content": [block]}}, "stopReason": stop, "usage": usage}


def _cohere(message: dict[str, Any], finish: str) -> dict[str, Any]:
    return {"id": "r", "message": {"role": "assistant", **message}, "finish_reason": finish}


def _interaction(step: dict[str, Any], status: str) -> dict[str, Any]:
    return {"id": "r", "object": "interaction", "model": "m", "status": status, "steps": [step]}


SAID = {"type": "output_text", "text": "Hello", "annotations": []}
CALLS: dict[str, dict[str, Any]] = {
    "chat": _chat({"content": None, "tool_calls": [CHAT_CALL]}, "tool_calls"),
    "responses": _responses(
        {
            "type": "function_call",
            "id": "f",
            "call_id": "c1",
            "name": "get_weather",
            "arguments": ARGUMENTS,
            "status": "completed",
        }
    ),
    "anthropic": _anthropic({"type": "tool_use", "id": "c1", "name": "get_weather", "input": OBJECT}, "tool_use"),
    "gemini": _gemini({"functionCall": {"name": "get_weather", "args": OBJECT}}),
    "ollama": _ollama({"content": "", "tool_calls": [{"function": {"name": "get_weather", "arguments": OBJECT}}]}),
    "cohere": _cohere({"tool_plan": "I will ask.", "tool_calls": [CHAT_CALL]}, "TOOL_CALL"),
    "interactions": _interaction(
        {"type": "function_call", "id": "c1", "name": "get_weather", "arguments": OBJECT}, "requires_action"
    ),
    "bedrock": _bedrock({"toolUse": {"toolUseId": "c1", "name": "get_weather", "input": OBJECT}}, "tool_use"),
}
TEXTS: dict[str, dict[str, Any]] = {
    "chat": _chat({"content": "Hello"}, "stop"),
    "responses": _responses(
        {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [SAID]}
    ),
    "anthropic": _anthropic({"type": "text", "text": "Hello"}, "end_turn"),
    "gemini": _gemini({"text": "Hello"}),
    "ollama": _ollama({"content": "Hello"}),
    "cohere": _cohere({"content": [{"type": "text", "text": "Hello"}]}, "COMPLETE"),
    "interactions": _interaction({"type": "model_output", "content": [{"type": "text", "text": "Hello"}]}, "completed"),
    "bedrock": _bedrock({"text": "Hello"}, "end_turn"),
}


class OneReply:
    """A transport that gives one document for every request, and keeps the requests."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self.requests: list[WireRequest] = []
        self.endpoints: list[Endpoint] = []
        self.closed = False

    async def send(self, request: WireRequest, endpoint: Endpoint) -> AsyncGenerator[WireEvent, None]:
        self.requests.append(request)
        self.endpoints.append(endpoint)
        yield WireEvent(self._document)

    async def aclose(self) -> None:
        self.closed = True
