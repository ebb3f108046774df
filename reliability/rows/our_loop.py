"""A program with our own loop: a model asks for the payment; killed, the program takes its run up from the journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from handrail import Context, Conversation, Executor, Policy, Runner, Tool, tool
from handrail.core.calls import ToolCall
from handrail.core.events import CallRequested, ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import ResultMessage
from handrail.core.model_request import ModelRequest
from handrail.journal import SqliteJournal
from handrail.run import conversation_of
from reliability.moments import step
from reliability.rows.program import ProgramRow
from reliability.stage import ARGUMENTS, pay as pay_into_book, tell, was_told

RUN = "order-17"


class PayingModel:
    """Asks for the payment, then says what came of it. One may be killed at each piece of a reply."""

    name = "paying"

    def holds_to_schema(self, *, tools: bool) -> bool:
        return False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        last = request.messages[-1]
        step("before a reply of the model")
        if isinstance(last, ResultMessage):
            yield TextDelta(text=last.result.text)
            step("in a reply of the model")
            yield ReplyFinished(stop="end", model=self.name)
        else:
            yield CallRequested(call=ToolCall("", "pay", ARGUMENTS))
            step("in a reply of the model")
            yield ReplyFinished(stop="tool_calls", model=self.name)


def paying_tool(folder: Path) -> Tool:
    @tool(side_effects=True)
    async def pay(to: str, cents: int) -> str:
        """Pay somebody."""
        return pay_into_book(folder)

    return pay


async def run(folder: Path) -> None:
    async with await SqliteJournal.open(folder / "journal.db") as journal:
        so_far = conversation_of(await journal.history(RUN))
        if so_far.text and not was_told(folder, so_far.text):
            tell(folder, so_far.text)  # the program was killed before it could say so
            return
        if not so_far.messages or so_far.text:
            so_far = so_far.say("Pay Ada 5 euros.")
        policy = Policy(confirm_side_effects=False)
        async with Executor([paying_tool(folder)], journal=journal, policy=policy) as executor:
            ended: Conversation = await Runner(PayingModel(), executor).run(so_far, Context(run=RUN))
            tell(folder, ended.text)


def program(folder: Path) -> None:
    asyncio.run(run(folder))


LOOP = ProgramRow(
    name="our loop",
    killed="the program: before and after each write to the journal and the payment, in each reply of the model",
    program=program,
)
