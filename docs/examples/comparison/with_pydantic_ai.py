"""The scenes with pydantic-ai: `Agent` over its chat model."""

from __future__ import annotations

from pydantic_ai import Agent, Tool, capture_run_messages
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits
from scenes import SCHEMA, cancel_when, show
from service import MODEL


def agent(url, *tools):
    provider = OpenAIProvider(base_url=url, api_key="none")
    return Agent(OpenAIChatModel(MODEL, provider=provider), tools=tools)


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


if __name__ == "__main__":
    show(PydanticAI())
