"""A run as it is told while it happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from handrail import Conversation, Executor, Runner, ToolCall, tool
from handrail.cli.live import Live
from handrail.core.events import CallReady, CallRequested, CallSettled, Event, ModelEvent, ReplyFinished
from handrail.core.model import ModelRequest
from handrail.testing.model import ScriptedModel

LOOK = ToolCall("call_1", "look", {"at": "the sky"})


@tool
async def look(at: str) -> str:
    """Look at something."""
    return "blue"


class Slow(ScriptedModel):
    """Says that its call is whole only when that has been answered."""

    def __init__(self) -> None:
        super().__init__()
        self.answered = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if self.answered.is_set():
            yield ReplyFinished(stop="end")
            return
        yield CallReady(call=LOOK)
        async with asyncio.timeout(30):
            await self.answered.wait()
        yield CallRequested(call=LOOK)
        yield ReplyFinished(stop="tool_calls")


async def test_a_read_that_ends_while_the_model_still_speaks_is_told_call_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model, live = Slow(), Live(as_json=False)

    async def emit(event: Event) -> None:
        await live(event)
        if isinstance(event, CallSettled):
            model.answered.set()

    async with Executor([look]) as executor:
        await Runner(model, executor).run(Conversation().say("How is the sky?"), emit=emit)

    told = [line.split(", ")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == ['→ look at="the sky"', '← look ok: "blue"']
