"""A run as it is told while it happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from handrail import Conversation, Executor, Runner, ToolCall, tool
from handrail.cli.output.live_run import LiveRunPrinter
from handrail.core.events import CallReady, CallRequested, ModelEvent, ReplyFinished
from handrail.core.model_request import ModelRequest
from handrail.testing.model import ScriptedModel

LOOK = ToolCall("call_1", "look", {"at": "the sky"})


class Slow(ScriptedModel):
    """Says that its call is whole only when the tool has run."""

    def __init__(self) -> None:
        super().__init__()
        self.ran = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if self.ran.is_set():
            yield ReplyFinished(stop="end")
            return
        yield CallReady(call=LOOK)
        async with asyncio.timeout(30):
            await self.ran.wait()
        yield CallRequested(call=LOOK)
        yield ReplyFinished(stop="tool_calls")


async def test_a_read_that_ends_while_the_model_still_speaks_is_told_call_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model, live = Slow(), LiveRunPrinter(as_json=False)

    @tool
    async def look(at: str) -> str:
        """Look at something."""
        model.ran.set()
        return "blue"

    async with Executor([look]) as executor:
        await Runner(model, executor).run(Conversation().say("How is the sky?"), emit=live)

    told = [line.split(", ")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == ['→ look at="the sky"', '← look ok: "blue"']
