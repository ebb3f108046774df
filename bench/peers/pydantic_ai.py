"""pydantic-ai: an agent over its chat model."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from openai import AsyncOpenAI
from pydantic_ai import Agent, Tool
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

from bench.turns.work import MODEL, PROMPT, SYSTEM, Once, Work


@asynccontextmanager
async def opened(work: Work, base_url: str) -> AsyncIterator[Once]:
    async with AsyncOpenAI(base_url=base_url, api_key="sk-bench") as client:
        model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))
        tools = [Tool(tool.function) for tool in work.tools()]
        agent = Agent(model, instructions=SYSTEM, tools=tools)
        history = [_message(said) for said in work.history()]
        limits = UsageLimits(request_limit=None)
        handler = _read if work.job.stream else None

        async def once() -> str:
            result = await agent.run(
                PROMPT, message_history=list(history), usage_limits=limits, event_stream_handler=handler
            )
            return result.output

        yield once


async def _read(context: Any, events: AsyncIterable[Any]) -> None:
    async for _ in events:
        pass


def _message(said: dict[str, Any]) -> ModelMessage:
    match said:
        case {"role": "user", "content": text}:
            return ModelRequest([UserPromptPart(text)])
        case {"tool_calls": [{"id": identity, "function": {"name": name, "arguments": arguments}}]}:
            return ModelResponse([ToolCallPart(name, arguments, identity)])
        case {"role": "tool", "tool_call_id": identity, "content": text}:
            return ModelRequest([ToolReturnPart("note", text, identity)])
        case {"content": text}:
            return ModelResponse([TextPart(text)])
    raise ValueError(said)
