"""litellm: a loop by hand over `acompletion`, which is how it is used; it has no loop of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import litellm

from bench.turns.work import MODEL, PROMPT, SYSTEM, Once, Work


@asynccontextmanager
async def opened(work: Work, base_url: str) -> AsyncIterator[Once]:
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    declared = work.tools()
    functions = {tool.name: tool.function for tool in declared}
    begun = [{"role": "system", "content": SYSTEM}, *work.history(), {"role": "user", "content": PROMPT}]
    fixed: dict[str, Any] = {
        "model": f"openai/{MODEL}",
        "api_base": base_url,
        "api_key": "sk-bench",
        "tools": [tool.as_openai() for tool in declared],
    }

    async def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
        if work.job.stream:
            return await _collected(await litellm.acompletion(messages=messages, stream=True, **fixed))
        reply = await litellm.acompletion(messages=messages, **fixed)
        return reply.choices[0].message.model_dump(exclude_none=True)

    async def answered(call: dict[str, Any]) -> dict[str, Any]:
        function = call["function"]
        text = await functions[function["name"]](**json.loads(function["arguments"]))
        return {"role": "tool", "tool_call_id": call["id"], "content": text}

    async def once() -> str:
        messages = list(begun)
        while True:
            message = await ask(messages)
            messages.append(message)
            if not message.get("tool_calls"):
                return message["content"]
            messages += await asyncio.gather(*map(answered, message["tool_calls"]))

    yield once


async def _collected(chunks: Any) -> dict[str, Any]:
    text: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    pieces: dict[int, list[str]] = {}
    async for chunk in chunks:
        for choice in chunk.choices:
            if choice.delta.content:
                text.append(choice.delta.content)
            for part in choice.delta.tool_calls or ():
                if part.id:
                    calls[part.index] = {"id": part.id, "type": "function", "function": {"name": part.function.name}}
                    pieces[part.index] = []
                pieces[part.index].append(part.function.arguments or "")
    for index, call in calls.items():
        call["function"]["arguments"] = "".join(pieces[index])
    message: dict[str, Any] = {"role": "assistant", "content": "".join(text) or None}
    return message | ({"tool_calls": list(calls.values())} if calls else {})
