"""openai-agents: its runner over its Chat Completions model, with tracing off."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from bench.turns.work import MODEL, PROMPT, SYSTEM, Once, Work


@asynccontextmanager
async def opened(work: Work, base_url: str) -> AsyncIterator[Once]:
    set_tracing_disabled(True)
    async with AsyncOpenAI(base_url=base_url, api_key="sk-bench") as client:
        tools = [function_tool(tool.function) for tool in work.tools()]
        model = OpenAIChatCompletionsModel(MODEL, client)
        agent = Agent(name="bench", instructions=SYSTEM, model=model, tools=tools)
        begun = [*(item for said in work.history() for item in _items(said)), {"role": "user", "content": PROMPT}]
        config = RunConfig(tracing_disabled=True)
        turns = work.job.turns + 5

        async def once() -> str:
            if not work.job.stream:
                whole = await Runner.run(agent, list(begun), max_turns=turns, run_config=config)
                return whole.final_output
            streamed = Runner.run_streamed(agent, list(begun), max_turns=turns, run_config=config)
            async for _ in streamed.stream_events():
                pass
            return streamed.final_output

        yield once


def _items(said: dict[str, Any]) -> Iterator[dict[str, Any]]:
    match said:
        case {"tool_calls": [{"id": identity, "function": function}]}:
            yield {"type": "function_call", "call_id": identity, **function}
        case {"role": "tool", "tool_call_id": identity, "content": text}:
            yield {"type": "function_call_output", "call_id": identity, "output": text}
        case _:
            yield said
