"""An agent of LangChain with a guarded tool, whose thread LangGraph keeps in SQLite and takes up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from handrail.adapters import guard
from reliability.moments import step
from reliability.rows.program import ProgramRow
from reliability.stage import ARGUMENTS, pay as pay_into_book, tell, was_told

THREAD: Any = {"configurable": {"thread_id": "order-17"}}


class PayingChatModel(GenericFakeChatModel):
    """Asks for the payment, then says what came of it."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[Any], *args: Any, **options: Any) -> ChatResult:
        step("before a reply of the model")
        call = {"name": "pay", "args": ARGUMENTS, "id": uuid4().hex}
        last = messages[-1]
        said = AIMessage(str(last.content)) if isinstance(last, ToolMessage) else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=said)])


class MortalSaver(AsyncSqliteSaver):
    """Keeps the thread. One may be killed before each of its writes."""

    async def aput(self, *args: Any, **options: Any) -> Any:
        step("before a checkpoint of LangGraph")
        return await super().aput(*args, **options)

    async def aput_writes(self, *args: Any, **options: Any) -> None:
        step("before the writes of a task of LangGraph")
        await super().aput_writes(*args, **options)


async def run(folder: Path) -> None:
    @tool
    def pay(to: str, cents: int) -> str:
        """Pay somebody."""
        return pay_into_book(folder)

    tools = guard([pay], journal=folder / "journal.db", rules=["allow pay"])
    async with MortalSaver.from_conn_string(str(folder / "checkpoints.db")) as checkpoints:
        agent = create_agent(PayingChatModel(messages=iter(())), tools, checkpointer=checkpoints)
        state = await agent.aget_state(THREAD)
        messages = state.values.get("messages", [])
        answer = str(messages[-1].content) if messages and not state.next else ""
        if answer and not was_told(folder, answer):
            tell(folder, answer)  # the program was killed before it could say so
            return
        asks = bool(answer) or not (messages or state.next)
        given = {"messages": [HumanMessage("Pay Ada 5 euros.")]} if asks else None
        done = await agent.ainvoke(given, THREAD)  # type: ignore[arg-type, unused-ignore]
        tell(folder, str(done["messages"][-1].content))


def program(folder: Path) -> None:
    asyncio.run(run(folder))


LANGCHAIN = ProgramRow(
    name="LangChain, guarded",
    killed="the program: before and after each write to the journal and the payment, before each checkpoint",
    program=program,
    preload=("langchain.agents", "langgraph.checkpoint.sqlite.aio"),
)
