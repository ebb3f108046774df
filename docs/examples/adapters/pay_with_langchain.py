"""An agent of LangChain that pays, with guarded tools. LangGraph keeps its checkpoints in a file and goes on there."""

from __future__ import annotations

from collections.abc import Callable
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
from handrail.ports import Journal

THREAD: Any = {"configurable": {"thread_id": "invoice-17"}}


class Model(GenericFakeChatModel):
    """Stands for a model: it pays, and then says what it was told."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[Any], *args: Any, **options: Any) -> ChatResult:
        told = [str(each.content) for each in messages if isinstance(each, ToolMessage)]
        call = {"name": "pay", "args": {"to": "Ada", "cents": 2450}, "id": uuid4().hex}
        reply = AIMessage(told[-1]) if told else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=reply)])


async def agent(folder: Path, journal: Journal, step: Callable[[], None]) -> str:
    """Begin the thread, or go on with it where it was left."""

    class MortalSaver(AsyncSqliteSaver):
        async def aput(self, *args: Any, **options: Any) -> Any:
            step()
            return await super().aput(*args, **options)

        async def aput_writes(self, *args: Any, **options: Any) -> None:
            step()
            await super().aput_writes(*args, **options)

    @tool
    def pay(to: str, cents: int) -> str:
        """Pay somebody."""
        step()
        with (folder / "bank.txt").open("a") as book:
            book.write(f"{cents} cents to {to}\n")
        step()
        return f"paid {cents} cents to {to}"

    tools = guard([pay], journal=journal, rules=["allow pay"])
    async with MortalSaver.from_conn_string(str(folder / "checkpoints.db")) as checkpoints:
        pays = create_agent(Model(messages=iter(())), tools, checkpointer=checkpoints)
        begun = await checkpoints.aget(THREAD) is not None
        state = await pays.ainvoke(None if begun else {"messages": [HumanMessage("Pay Ada.")]}, THREAD)
    return str(state["messages"][-1].content)
