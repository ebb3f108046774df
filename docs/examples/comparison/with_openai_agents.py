"""The scenes with openai-agents: `Runner` over its Chat Completions model, with a session in memory."""

from __future__ import annotations

import asyncio
import json

from agents import (
    Agent,
    FunctionTool,
    OpenAIChatCompletionsModel,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from scenes import SCHEMA, Refused, cancel_when, show
from service import MODEL


def agent(url, *tools, **more):
    client = AsyncOpenAI(base_url=url, api_key="none")
    return Agent(name="scene", model=OpenAIChatCompletionsModel(MODEL, client), tools=list(tools), **more)


class OpenAIAgents:
    async def run(self, url, *functions, turns=10):
        await Runner.run(agent(url, *map(function_tool, functions)), "Go.", max_turns=turns)

    async def run_schema(self, url, function):
        async def invoke(context, arguments):
            return function(**json.loads(arguments))

        await Runner.run(agent(url, FunctionTool("buy", "Buy.", SCHEMA, invoke)), "Go.")

    async def run_limited(self, url, function, seconds):
        try:
            limited = function_tool(function, timeout=seconds)
        except ValueError as error:
            raise Refused("not for plain functions") from error
        await Runner.run(agent(url, limited), "Go.")

    async def run_cancelled(self, url, *functions, ready):
        session, both = SQLiteSession("scene"), agent(url, *map(function_tool, functions))
        await cancel_when(ready, Runner.run(both, "Go.", session=session))
        await Runner.run(both, "Go on.", session=session)

    async def run_lost(self, url, function, begun):
        """The session stands for a file: it is what another process finds."""
        session, pays = SQLiteSession("scene"), agent(url, function_tool(function))
        first = asyncio.create_task(Runner.run(pays, "Go.", session=session))
        await begun.wait()
        await Runner.run(pays, "Go on.", session=session)
        first.cancel()
        await asyncio.wait([first])

    async def run_asking(self, url, function, asked):
        asks = agent(url, function_tool(function, needs_approval=True))
        waiting = await Runner.run(asks, "Go.")
        state = waiting.to_state()
        for call in waiting.interruptions:
            asked()
            state.approve(call)
        await Runner.run(asks, state)

    async def run_typed(self, url, type):
        return (await Runner.run(agent(url, output_type=type), "Go.")).final_output


if __name__ == "__main__":
    set_tracing_disabled(True)
    show(OpenAIAgents())
