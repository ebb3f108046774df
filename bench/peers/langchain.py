"""langchain: `create_agent` over `ChatOpenAI`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.messages import convert_to_messages
from langchain_openai import ChatOpenAI

from bench.turns.work import MODEL, PROMPT, SYSTEM, Once, Work


@asynccontextmanager
async def opened(work: Work, base_url: str) -> AsyncIterator[Once]:
    model = ChatOpenAI(
        model=MODEL, base_url=base_url, api_key="sk-bench", streaming=work.job.stream, use_responses_api=False
    )
    agent = create_agent(model, [tool(declared.function) for declared in work.tools()], system_prompt=SYSTEM)
    begun: list[Any] = [*convert_to_messages(work.history()), {"role": "user", "content": PROMPT}]
    config: Any = {"recursion_limit": 2 * work.job.turns + 10}

    async def once() -> str:
        state = await agent.ainvoke({"messages": list(begun)}, config)
        text: str = state["messages"][-1].content
        return text

    yield once
