"""An agent of openai-agents that pays, with guarded tools. Its session is kept in a file, and it goes on with it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from agents import Agent, Model, ModelResponse, RunConfig, Runner, SQLiteSession, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from handrail.adapters import guard
from handrail.ports import Journal


class PlayedModel(Model):
    """Stands for a model: it pays, and then says what it was told."""

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **options: Any) -> ModelResponse:
        told = [each["output"] for each in input if each.get("type") == "function_call_output"]
        output: list[Any] = [_said(str(told[-1]))] if told else [_call()]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def _call() -> ResponseFunctionToolCall:
    given = json.dumps({"to": "Ada", "cents": 2450})
    return ResponseFunctionToolCall(name="pay", call_id=uuid4().hex, arguments=given, type="function_call")


def _said(words: str) -> ResponseOutputMessage:
    content = ResponseOutputText(text=words, type="output_text", annotations=[])
    return ResponseOutputMessage(id="m", content=[content], role="assistant", status="completed", type="message")


async def agent(folder: Path, journal: Journal, step: Callable[[], None]) -> str:
    """Begin the session, or go on with it where it was left."""

    class MortalSession(SQLiteSession):
        async def add_items(self, items: Any, *args: Any, **options: Any) -> None:
            step()
            await super().add_items(items, *args, **options)
            step()

    @function_tool
    def pay(to: str, cents: int) -> str:
        """Pay somebody."""
        step()
        with (folder / "bank.txt").open("a") as book:
            book.write(f"{cents} cents to {to}\n")
        step()
        return f"paid {cents} cents to {to}"

    session = MortalSession("invoice-17", folder / "session.db")
    tools = guard([pay], journal=journal, rules=["allow pay"], run=session.session_id)
    pays = Agent(name="clerk", model=PlayedModel(), tools=[*tools])
    prompt = "Go on." if await session.get_items() else "Pay Ada."
    done = await Runner.run(pays, prompt, session=session, run_config=RunConfig(tracing_disabled=True))
    return str(done.final_output)
