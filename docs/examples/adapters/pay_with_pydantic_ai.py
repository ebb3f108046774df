"""An agent of pydantic-ai that pays, with guarded tools. Its messages are kept in a file, and it goes on with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from pydantic_ai import Agent, FunctionToolset, ModelMessagesTypeAdapter
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from handrail.adapters import guard
from handrail.ports import Journal


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands for a model: it pays, and then says what it was told."""
    told = [part.content for each in messages for part in each.parts if isinstance(part, ToolReturnPart)]
    if told:
        return ModelResponse([TextPart(str(told[-1]))])
    return ModelResponse([ToolCallPart("pay", {"to": "Ada", "cents": 2450}, tool_call_id=uuid4().hex)])


async def agent(folder: Path, journal: Journal, step: Callable[[], None]) -> str:
    """Begin the conversation, or go on with it where it was left."""

    def pay(to: str, cents: int) -> str:
        """Pay somebody."""
        step()
        with (folder / "bank.txt").open("a") as book:
            book.write(f"{cents} cents to {to}\n")
        step()
        return f"paid {cents} cents to {to}"

    tools = guard(FunctionToolset([pay]), journal=journal, rules=["allow pay"])
    pays = Agent(FunctionModel(model), toolsets=[tools])
    kept = folder / "messages.json"
    before = ModelMessagesTypeAdapter.validate_json(kept.read_bytes()) if kept.exists() else None
    prompt = None if before else "Pay Ada."
    async with pays.iter(prompt, message_history=before, conversation_id="invoice-17") as run:
        async for _ in run:
            step()
            kept.write_bytes(ModelMessagesTypeAdapter.dump_json(run.all_messages()))
            step()
    assert run.result is not None
    return str(run.result.output)
