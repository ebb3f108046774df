"""An agent of openai-agents with a guarded tool, whose session is kept in SQLite and goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from agents import Agent, Model, ModelResponse, RunConfig, Runner, SQLiteSession, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from handrail.adapters import guard
from reliability.moments import step
from reliability.rows.program import ProgramRow
from reliability.stage import ARGUMENTS, pay as pay_into_book, tell, was_told


class PayingAgentModel(Model):
    """Asks for the payment, then says what came of it."""

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **options: Any) -> ModelResponse:
        step("before a reply of the model")
        last = input[-1]
        output: list[Any] = [_said(str(last["output"])) if last.get("type") == "function_call_output" else _call()]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def _call() -> ResponseFunctionToolCall:
    given = json.dumps(ARGUMENTS)
    return ResponseFunctionToolCall(name="pay", call_id=uuid4().hex, arguments=given, type="function_call")


def _said(words: str) -> ResponseOutputMessage:
    content = ResponseOutputText(text=words, type="output_text", annotations=[])
    return ResponseOutputMessage(id="m", content=[content], role="assistant", status="completed", type="message")


class MortalSession(SQLiteSession):
    """Keeps the conversation. One may be killed before and after each of its writes."""

    async def add_items(self, items: Any, *args: Any, **options: Any) -> None:
        step("before the session is kept")
        await super().add_items(items, *args, **options)
        step("after the session is kept")


async def run(folder: Path) -> None:
    @function_tool
    def pay(to: str, cents: int) -> str:
        """Pay somebody."""
        return pay_into_book(folder)

    session = MortalSession("order-17", folder / "session.db")
    items: list[Any] = [*await session.get_items()]
    is_answered = bool(items) and items[-1].get("role") == "assistant"
    answer = items[-1]["content"][0]["text"] if is_answered else ""
    if answer and not was_told(folder, answer):
        tell(folder, answer)  # the program was killed before it could say so
        return
    tools = guard([pay], journal=folder / "journal.db", rules=["allow pay"], run=session.session_id)
    agent = Agent(name="clerk", model=PayingAgentModel(), tools=[*tools])
    prompt = "Pay Ada 5 euros." if answer or not items else "Go on."
    done = await Runner.run(agent, prompt, session=session, run_config=RunConfig(tracing_disabled=True))
    tell(folder, str(done.final_output))


def program(folder: Path) -> None:
    asyncio.run(run(folder))


OPENAI_AGENTS = ProgramRow(
    name="openai-agents, guarded",
    killed="the program: before and after each write to the journal, the payment and the keeping of the session",
    program=program,
    preload=("agents",),
)
