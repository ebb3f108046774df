"""The scenes with LangChain: `create_agent` over `ChatOpenAI`, with a checkpointer where a conversation goes on."""

from __future__ import annotations

from langchain.agents import create_agent
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from scenes import SCHEMA, Refused, cancel_when, show
from service import MODEL


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
        raise Refused("no time limit for a tool")

    async def run_cancelled(self, url, *functions, ready):
        both = agent(url, *functions, checkpointer=InMemorySaver())
        thread = {"configurable": {"thread_id": "scene"}}
        await cancel_when(ready, both.ainvoke(said("Go."), thread))
        await both.ainvoke(said("Go on."), thread)


if __name__ == "__main__":
    show(LangChain())
