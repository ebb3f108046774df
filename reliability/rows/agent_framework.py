"""An agent of agent-framework with a guard, whose history is kept in a file after each reply, and goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    HistoryProvider,
    Message,
    tool,
)

from handrail.adapters import GuardFunctionMiddleware
from reliability.moments import step
from reliability.rows.program import ProgramRow
from reliability.stage import ARGUMENTS, pay as pay_into_book, tell, was_told


class PayingClient(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Asks for the payment, then says what came of it."""

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any) -> Any:
        async def reply() -> ChatResponse[Any]:
            step("before a reply of the model")
            last = messages[-1].contents[-1]
            said = Content.from_text(str(last.result)) if last.type == "function_result" else _call()
            return ChatResponse(messages=[Message("assistant", [said])])

        return reply()


def _call() -> Content:
    return Content.from_function_call(call_id=uuid4().hex, name="pay", arguments=ARGUMENTS)


class MortalHistory(HistoryProvider):
    """Keeps the conversation in a file. One may be killed before and after each of its writes."""

    def __init__(self, path: Path) -> None:
        super().__init__("history")
        self._path = path

    async def get_messages(self, session_id: str | None, **more: Any) -> list[Message]:
        if not self._path.exists():
            return []
        return [Message.from_dict(json.loads(line)) for line in self._path.read_text(encoding="utf-8").splitlines()]

    async def save_messages(self, session_id: str | None, messages: Sequence[Message], **more: Any) -> None:
        step("before the history is kept")
        with self._path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{json.dumps(each.to_dict())}\n" for each in messages))
        step("after the history is kept")


async def run(folder: Path) -> None:
    @tool
    def pay(to: str, cents: int) -> str:
        """Pay somebody."""
        return pay_into_book(folder)

    history = MortalHistory(folder / "history.jsonl")
    before = await history.get_messages("order-17")
    answer = before[-1].text if before and before[-1].role == "assistant" else ""
    if answer and not was_told(folder, answer):
        tell(folder, answer)  # the program was killed before it could say so
        return
    agent = Agent(
        PayingClient(),
        tools=[pay],
        context_providers=[history],
        middleware=[GuardFunctionMiddleware(journal=folder / "journal.db", rules=["allow pay"])],
        require_per_service_call_history_persistence=True,
    )
    prompt = "Pay Ada 5 euros." if answer or not before else "Go on."
    tell(folder, (await agent.run(prompt, session=AgentSession(session_id="order-17"))).text)


def program(folder: Path) -> None:
    asyncio.run(run(folder))


AGENT_FRAMEWORK = ProgramRow(
    name="agent-framework, guarded",
    killed="the program: before and after each write to the journal, the payment and the keeping of the history",
    program=program,
    preload=("agent_framework",),
)
