"""An agent of pydantic-ai with a guarded tool, which keeps its messages after each step and goes on with them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

from pydantic_ai import Agent, FunctionToolset, ModelMessagesTypeAdapter
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from handrail.adapters import guard
from reliability.moments import step
from reliability.rows.program import ProgramRow
from reliability.stage import ARGUMENTS, pay as pay_into_book, tell, was_told


def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    step("before a reply of the model")
    told = [str(part.content) for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if told:
        return ModelResponse([TextPart(told[-1])])
    return ModelResponse([ToolCallPart("pay", ARGUMENTS, tool_call_id=uuid4().hex)])


async def run(folder: Path) -> None:
    def pay(to: str, cents: int) -> str:
        """Pay somebody."""
        return pay_into_book(folder)

    kept = folder / "messages.json"
    before = ModelMessagesTypeAdapter.validate_json(kept.read_bytes()) if kept.exists() else []
    last = before[-1] if before else None
    answer = (last.text or "") if isinstance(last, ModelResponse) else ""
    if answer and not was_told(folder, answer):
        tell(folder, answer)  # the program was killed before it could say so
        return
    tools = guard(FunctionToolset([pay]), journal=folder / "journal.db", rules=["allow pay"])
    agent = Agent(FunctionModel(reply), toolsets=[tools])
    prompt = "Pay Ada 5 euros." if answer or not before else None
    async with agent.iter(prompt, message_history=before, conversation_id="order-17") as running:
        async for _ in running:
            step("before the messages are kept")
            kept.write_bytes(ModelMessagesTypeAdapter.dump_json(running.all_messages()))
            step("after the messages are kept")
    assert running.result is not None
    tell(folder, running.result.output)


def program(folder: Path) -> None:
    asyncio.run(run(folder))


PYDANTIC_AI = ProgramRow(
    name="pydantic-ai, guarded",
    killed="the program: before and after each write to the journal, the payment and the keeping of messages",
    program=program,
    preload=("pydantic_ai",),
)
