"""The scenes with pydantic-ai: `Agent` over its chat model."""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool, capture_run_messages
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits
from scenes import SCHEMA, cancel_when, show
from service import MODEL


def agent(url, *tools, **more):
    provider = OpenAIProvider(base_url=url, api_key="none")
    return Agent(OpenAIChatModel(MODEL, provider=provider), tools=tools, **more)


class PydanticAI:
    async def run(self, url, *functions, turns=10):
        await agent(url, *functions).run("Go.", usage_limits=UsageLimits(request_limit=turns))

    async def run_schema(self, url, function):
        await agent(url, Tool.from_schema(function, "buy", "Buy.", SCHEMA)).run("Go.")

    async def run_limited(self, url, function, seconds):
        await agent(url, Tool(function, timeout=seconds)).run("Go.")

    async def run_cancelled(self, url, *functions, ready):
        with capture_run_messages() as messages:
            await cancel_when(ready, agent(url, *functions).run("Go."))
        await agent(url, *functions).run("Go on.", message_history=messages)

    async def run_lost(self, url, function, begun):
        """It keeps nothing by itself: the messages are what a program would have kept."""
        with capture_run_messages() as messages:
            first = asyncio.create_task(agent(url, function).run("Go."))
            await begun.wait()
        await agent(url, function).run(message_history=list(messages))
        first.cancel()
        await asyncio.wait([first])

    async def run_asking(self, url, function, asked):
        asks = agent(url, Tool(function, requires_approval=True), output_type=[str, DeferredToolRequests])
        waiting = await asks.run("Go.")
        asked()
        word = DeferredToolResults(approvals={call.tool_call_id: True for call in waiting.output.approvals})
        await asks.run(message_history=waiting.all_messages(), deferred_tool_results=word)

    async def run_typed(self, url, type):
        return (await agent(url, output_type=type).run("Go.")).output


if __name__ == "__main__":
    show(PydanticAI())
