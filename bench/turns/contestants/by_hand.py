"""The loop as a careful person writes it with aiohttp and `json`: the one that ratios are against.

It validates nothing, records nothing, and trusts the service: what it costs is what
the work itself costs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from bench.turns.work import MODEL, PROMPT, SYSTEM, AsyncTool, Once, Work

Dumps = Callable[[Any], bytes]
Loads = Callable[[bytes | str], Any]


def _dumps(value: Any) -> bytes:
    return json.dumps(value).encode()


@asynccontextmanager
async def opened(work: Work, base_url: str, dumps: Dumps = _dumps, loads: Loads = json.loads) -> AsyncIterator[Once]:
    declared = work.tools()
    functions: dict[str, AsyncTool] = {tool.name: tool.function for tool in declared}
    fixed: dict[str, Any] = {"model": MODEL, "tools": [tool.as_openai() for tool in declared]}
    if work.job.stream:
        fixed |= {"stream": True, "stream_options": {"include_usage": True}}
    begun = [{"role": "system", "content": SYSTEM}, *work.history(), {"role": "user", "content": PROMPT}]
    headers = {"authorization": "Bearer sk-bench", "content-type": "application/json"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
            body = dumps({**fixed, "messages": messages})
            async with session.post(f"{base_url}/chat/completions", data=body) as response:
                response.raise_for_status()
                if work.job.stream:
                    return await collected(response, loads)
                message: dict[str, Any] = loads(await response.read())["choices"][0]["message"]
                return message

        async def answered(call: dict[str, Any]) -> dict[str, Any]:
            function = call["function"]
            text = await functions[function["name"]](**loads(function["arguments"]))
            return {"role": "tool", "tool_call_id": call["id"], "content": text}

        async def once() -> str:
            messages = list(begun)
            while True:
                message = await ask(messages)
                messages.append(message)
                calls = message.get("tool_calls")
                if not calls:
                    said: str = message["content"]
                    return said
                if len(calls) == 1:
                    messages.append(await answered(calls[0]))
                else:
                    messages += await asyncio.gather(*map(answered, calls))

        yield once


async def collected(response: aiohttp.ClientResponse, loads: Loads) -> dict[str, Any]:
    """The message that a stream adds up to."""
    text: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    pieces: dict[int, list[str]] = {}
    rest = b""
    async for chunk in response.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if not line.startswith(b"data: ") or line == b"data: [DONE]":
                continue
            for choice in loads(line[6:])["choices"]:
                delta = choice["delta"]
                if said := delta.get("content"):
                    text.append(said)
                for part in delta.get("tool_calls", ()):
                    index, function = part["index"], part["function"]
                    if "id" in part:
                        calls[index] = {"id": part["id"], "type": "function", "function": {"name": function["name"]}}
                        pieces[index] = []
                    pieces[index].append(function["arguments"])
    for index, call in calls.items():
        call["function"]["arguments"] = "".join(pieces[index])
    message: dict[str, Any] = {"role": "assistant", "content": "".join(text) or None}
    return message | ({"tool_calls": list(calls.values())} if calls else {})
