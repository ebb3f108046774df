"""The scenes with handrail: `Session`."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scenes import SCHEMA, Function, Order, cancel_when, show
from service import MODEL

from handrail import (
    LLM,
    Context,
    Executor,
    Invocation,
    Limits,
    Policy,
    Runner,
    Session,
    Tool,
    ToolDefinition,
    create_llm,
    tool,
)
from handrail.confirm import Allow, Confirmation
from handrail.journal import SqliteJournal
from handrail.run import conversation_of

logging.getLogger("handrail").addHandler(logging.NullHandler())  # a scene raises on purpose; its traceback is no news
FREE = Policy(confirm_side_effects=False)


def model_at(url: str) -> LLM:
    return create_llm(f"compatible:{MODEL}", base_url=url, stream=False)


def session(url: str, *tools: Tool, turns: int = 10, policy: Policy = FREE, **more: Any) -> Session:
    limits = Limits(iterations=turns, calls_per_turn=50)
    return Session(model_at(url), tools=tools, policy=policy, limits=limits, **more)


class Yes:
    def __init__(self, asked: Callable[[], None]) -> None:
        self.asked = asked

    async def decide(self, question: Confirmation) -> Allow:
        self.asked()
        return Allow("you")


def read(function: Function) -> Tool:
    return tool(function, side_effects=False)


class Handrail:
    async def run(self, url: str, *functions: Function, turns: int = 10) -> None:
        async with session(url, *map(read, functions), turns=turns) as scene:
            await scene.ask_async("Go.")

    async def run_schema(self, url: str, function: Callable[[int], str]) -> None:
        async def handler(invocation: Invocation) -> str:
            return function(invocation.arguments["count"])

        definition = ToolDefinition(name="buy", description="Buy.", input_schema=SCHEMA, side_effects=True)
        async with session(url, Tool(definition, handler)) as scene:
            await scene.ask_async("Go.")

    async def run_limited(self, url: str, function: Function, seconds: float) -> None:
        async with session(url, tool(function, timeout=seconds, side_effects=True)) as scene:
            await scene.ask_async("Go.")

    async def run_cancelled(self, url: str, *functions: Function, ready: asyncio.Event) -> None:
        async with session(url, *(tool(each, side_effects=True) for each in functions)) as scene:
            await cancel_when(ready, scene.ask_async("Go."))
            await scene.ask_async("Go on.")

    async def run_lost(self, url: str, function: Function, begun: asyncio.Event) -> None:
        """What is on disk at that moment is all that the other one has."""
        pay = tool(function, side_effects=True)
        with TemporaryDirectory() as name:
            here, elsewhere = Path(name, "here.db"), Path(name, "elsewhere.db")
            async with session(url, pay, journal=str(here)) as scene:
                first = asyncio.create_task(scene.ask_async("Go."))
                await begun.wait()
                assert scene.run is not None
                copy(here, elsewhere)
                await go_on(url, pay, elsewhere, scene.run)
                first.cancel()
                await asyncio.wait([first])

    async def run_asking(self, url: str, function: Function, asked: Callable[[], None]) -> None:
        async with session(url, tool(function, side_effects=True), policy=Policy(), approver=Yes(asked)) as scene:
            await scene.ask_async("Go.")

    async def run_typed(self, url: str, type: type[Order]) -> Order:
        async with session(url) as scene:
            return (await scene.ask_async("Go.", returns=type)).value


def copy(here: Path, elsewhere: Path) -> None:
    with closing(sqlite3.connect(here)) as left, closing(sqlite3.connect(elsewhere)) as found:
        left.backup(found)
    shutil.copy(here.with_suffix(".key"), elsewhere.with_suffix(".key"))


async def go_on(url: str, pay: Tool, path: Path, run: str) -> None:
    async with await SqliteJournal.open(path) as journal, Executor([pay], journal=journal, policy=FREE) as executor:
        conversation = conversation_of(await journal.history(run))
        async with model_at(url) as llm:
            await Runner(llm.model, executor).run(conversation, Context(run=run))


if __name__ == "__main__":
    show(Handrail())
