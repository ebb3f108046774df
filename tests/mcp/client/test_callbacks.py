"""The answers that a server gets to its questions, when they are too many or something goes wrong here."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types
import pytest

from handrail.core.confirmation import Allow, Confirmation, Decision
from handrail.mcp.client.callbacks import callbacks
from handrail.mcp.client.server_questions import ApproverQuestionHandler

QUESTION = mcp_types.ElicitRequestFormParams(message="?", requested_schema={"type": "object", "properties": {}})


class Thinking:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.done = asyncio.Event()

    async def decide(self, question: Confirmation) -> Decision:
        self.asked += 1
        await self.done.wait()
        return Allow("ada")


async def test_a_person_is_asked_only_so_much_at_once_by_one_server() -> None:
    person = Thinking()
    ask: Any = callbacks(ApproverQuestionHandler(person), "shop")["elicitation_callback"]
    asking = [asyncio.create_task(ask(None, QUESTION)) for _ in range(1_000)]
    refused = [await each for each in asking[8:]]
    assert person.asked == 8
    assert {type(each) for each in refused} == {mcp_types.ErrorData}
    person.done.set()
    assert [(await each).action for each in asking[:8]] == ["accept"] * 8
    assert (await ask(None, QUESTION)).action == "accept", "there is room again"


async def test_what_goes_wrong_here_is_logged_and_not_told_to_a_stranger(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        async def decide(self, question: Confirmation) -> Decision:
            raise OSError("/home/ada/.ssh is not readable")

    answer = await callbacks(ApproverQuestionHandler(Broken()), "shop")["elicitation_callback"](None, QUESTION)
    assert answer == mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message="the host could not answer")
    assert "/home/ada/.ssh" in caplog.text
