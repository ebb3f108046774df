"""A chat with tools over SSE and over WebSocket: a hundred seeded conversations, the same events, the same answer.

Over SSE each reply is a stream of its own, and the caller asks again with what its tools gave; over WebSocket there is
one stream, into which it answers. What is compared is what a reader of the chat gets: every frame with its data, in
order, but for the ends of replies in the middle, which only SSE has, and for how long it took, which is in `done`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from handrail import CapabilityBus, ToolError, ToolExecutor
from handrail.core.calls import ToolCall
from handrail.core.errors import BusError, ModelUnavailable, RateLimited
from handrail.core.events import CallRequested, ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import AssistantMessage, Usage
from handrail.core.model_request import ModelRequest
from handrail.node.http import HttpBus
from handrail.node.services.llm import LlmService
from tests.node.bus.scripted_models import results
from tests.node.http.loopback_node import served

pytestmark = pytest.mark.asyncio(loop_scope="module")
SEEDS = range(100)
TURNS = 4
WORDS = ("Regenwasser", " für", " die", " Bäume", "…", "\n", " 🌧", "\u2028", ' "so" ', "\\n", "x" * 300)

Reply = list[ModelEvent | Exception]


def script(seed: int) -> list[Reply]:
    """What the model says in a conversation: up to four turns with up to four calls, some wrong, and an end."""
    dice = random.Random(seed)
    replies: list[Reply] = []
    for turn in range(dice.randrange(TURNS)):
        reply: Reply = [TextDelta(text=dice.choice(WORDS)) for _ in range(dice.randrange(4))]
        reply += [CallRequested(call=_call(dice, f"tc_{turn}_{number}")) for number in range(dice.randrange(1, 5))]
        replies.append([*reply, _end(dice, "tool_calls")])
    last: Reply = [TextDelta(text=dice.choice(WORDS)) for _ in range(dice.randrange(1, 6))]
    fails = dice.random() < 0.15
    return [
        *replies,
        [*last, dice.choice([ModelUnavailable("down"), RateLimited("slower")]) if fails else _end(dice, "end")],
    ]


def _call(dice: random.Random, id: str) -> ToolCall:
    """None is wrong in the same way as another: who loops stops that, and over a socket that is the node."""
    name = dice.choice(["add", "add", "shout", "fail", "no_such_tool"])
    choices: dict[str, dict[str, Any]] = {
        "add": {"a": dice.randrange(9), "b": dice.randrange(9)},
        "shout": {"text": dice.choice(WORDS)},
        "fail": {"why": dice.choice(WORDS)},
        "no_such_tool": {"of": id},
    }
    arguments = choices[name]
    if dice.random() < 0.1:
        arguments = {"wrong": id}
    return ToolCall(id, name, arguments)


def _end(dice: random.Random, stop: Any) -> ReplyFinished:
    return ReplyFinished(stop=stop, usage=Usage(input_tokens=dice.randrange(100), output_tokens=dice.randrange(100)))


class Seeded:
    """Says what its script has for as many replies as there were, and at the end what its tools told it."""

    def __init__(self, seed: int) -> None:
        self.name = f"seed-{seed}"
        self._replies = script(seed)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        said = sum(isinstance(message, AssistantMessage) for message in request.messages)
        for event in self._replies[said]:
            if isinstance(event, Exception):
                raise event
            if isinstance(event, ReplyFinished) and event.stop == "end":
                yield TextDelta(text=" | ".join(results(request)))
            yield event


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url() -> AsyncIterator[str]:
    async with CapabilityBus() as node:
        node.register_service(LlmService(lambda name: Seeded(int(name)), max_concurrent=64))
        async with served(node) as url:
            yield url


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def shout(text: str) -> dict[str, str]:
    """Shout."""
    await asyncio.sleep(0)
    return {"loud": text.upper()}


def fail(why: str) -> str:
    """Fail."""
    raise ToolError("NO", why)


async def chat(bus: HttpBus, seed: int, *, interactive: bool) -> tuple[list[dict[str, Any]], Any]:
    """The frames that a reader got, and the answer, or the error in its place."""
    frames: list[dict[str, Any]] = []

    async def keep(frame: dict[str, Any]) -> None:
        frames.append({**frame, "data": {key: value for key, value in frame["data"].items() if key != "ms"}})

    body = {"params": {"model": str(seed)}, "input": {"messages": [{"role": "user", "content": "Go on."}]}}
    async with ToolExecutor(bus, [add, shout, fail], interactive=interactive) as executor:
        try:
            return frames, await executor.run_chat_with_tools(body, stream_to=keep)
        except BusError as error:
            return frames, error.to_dict()


@pytest.mark.requirement("hearthnet.sse")
@pytest.mark.requirement("hearthnet.websocket")
@pytest.mark.requirement("hearthnet.frames")
async def test_a_hundred_conversations_are_the_same_over_sse_and_over_websocket(url: str) -> None:
    async with HttpBus(url, transport="sse") as bus:
        kinds: set[str] = set()
        for seed in SEEDS:
            async with asyncio.timeout(60):
                by_events = await chat(bus, seed, interactive=False)
                by_socket = await chat(bus, seed, interactive=True)
            assert by_events == by_socket, f"seed {seed}"
            frames, answer = by_events
            kinds |= {frame["event"] for frame in frames}
            assert [frame["event"] for frame in frames if frame["event"] in ("done", "error")] == [frames[-1]["event"]]
            assert ("error" in answer) == (frames[-1]["event"] == "error")
    assert kinds == {"token", "tool_call", "tool_call_delta", "done", "error"}
