"""The scenes with LangChain: `create_agent` over `ChatOpenAI`, with a checkpointer where a conversation goes on."""

from __future__ import annotations

import asyncio

from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from scenes import SCHEMA, Refused, cancel_when, show
from service import MODEL

THREAD = {"configurable": {"thread_id": "scene"}}


def agent(url, *tools, **more):
    model = ChatOpenAI(model=MODEL, base_url=url, api_key="none", use_responses_api=False)
    return create_agent(model, list(tools), **more)


def said(words):
    return {"messages": [{"role": "user", "content": words}]}


class LangChain:
    async def run(self, url, *functions, turns=10):
        await agent(url, *functions).ainvoke(said("Go."), {"recursion_limit": 2 * turns})

    async def run_schema(self, url, function):
        buy = StructuredTool.from_function(function, name="buy", description="Buy.", args_schema=SCHEMA)
        await agent(url, buy).ainvoke(said("Go."))

    async def run_limited(self, url, function, seconds):
        try:
            limited = tool(timeout=seconds)(function)
        except TypeError as error:
            raise Refused("no time limit for a tool") from error
        await agent(url, limited).ainvoke(said("Go."))

    async def run_cancelled(self, url, *functions, ready):
        both = agent(url, *functions, checkpointer=InMemorySaver())
        await cancel_when(ready, both.ainvoke(said("Go."), THREAD))
        await both.ainvoke(said("Go on."), THREAD)

    async def run_lost(self, url, function, begun):
        """The checkpoints stand for a database: they are what another process finds."""
        checkpoints = InMemorySaver()
        first = asyncio.create_task(agent(url, function, checkpointer=checkpoints).ainvoke(said("Go."), THREAD))
        await begun.wait()
        await agent(url, function, checkpointer=checkpoints).ainvoke(None, THREAD)
        first.cancel()
        await asyncio.wait([first])

    async def run_asking(self, url, function, asked):
        """A tool that stops itself. `HumanInTheLoopMiddleware` stops before it: docs/migrating/langchain.md."""

        def pay(number: int) -> str:
            """Pay."""
            said = function(number)
            interrupt("May I?")
            return said

        asks = agent(url, pay, checkpointer=InMemorySaver())
        await asks.ainvoke(said("Go."), THREAD)
        asked()
        await asks.ainvoke(Command(resume="yes"), THREAD)

    async def run_typed(self, url, type):
        return (await agent(url, response_format=type).ainvoke(said("Go.")))["structured_response"]


if __name__ == "__main__":
    show(LangChain())
