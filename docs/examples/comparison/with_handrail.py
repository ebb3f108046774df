"""The scenes with handrail: `Session`."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from scenes import SCHEMA, cancel_when, show
from service import MODEL

from handrail import Context, Executor, Limits, Policy, Runner, Session, Tool, ToolDefinition, create_llm, tool
from handrail.confirm import Allow
from handrail.journal import SqliteJournal
from handrail.run import conversation_of

logging.getLogger("handrail").addHandler(logging.NullHandler())  # a scene raises on purpose; its traceback is no news
FREE = Policy(confirm_side_effects=False)


def model_at(url):
    return create_llm(f"compatible:{MODEL}", base_url=url, stream=False)


def session(url, *tools, turns=10, policy=FREE, **more):
    limits = Limits(iterations=turns, calls_per_turn=50)
    return Session(model_at(url), tools=tools, policy=policy, limits=limits, **more)


class Yes:
    def __init__(self, asked):
        self.asked = asked

    async def decide(self, question):
        self.asked()
        return Allow("you")


def read(function):
    return tool(function, side_effects=False)


class Handrail:
    async def run(self, url, *functions, turns=10):
        async with session(url, *map(read, functions), turns=turns) as scene:
            await scene.ask_async("Go.")

    async def run_schema(self, url, function):
        async def handler(invocation):
            return function(**invocation.arguments)

        definition = ToolDefinition(name="buy", description="Buy.", input_schema=SCHEMA, side_effects=True)
        async with session(url, Tool(definition, handler)) as scene:
            await scene.ask_async("Go.")

    async def run_limited(self, url, function, seconds):
        async with session(url, tool(function, timeout=seconds, side_effects=True)) as scene:
            await scene.ask_async("Go.")

    async def run_cancelled(self, url, *functions, ready):
        async with session(url, *(tool(each, side_effects=True) for each in functions)) as scene:
            await cancel_when(ready, scene.ask_async("Go."))
            await scene.ask_async("Go on.")

    async def run_lost(self, url, function, begun):
        """What is on disk at that moment is all that the other one has."""
        pay = tool(function, side_effects=True)
        with TemporaryDirectory() as name:
            here, elsewhere = Path(name, "here.db"), Path(name, "elsewhere.db")
            async with session(url, pay, journal=str(here)) as scene:
                first = asyncio.create_task(scene.ask_async("Go."))
                await begun.wait()
                copy(here, elsewhere)
                await go_on(url, pay, elsewhere, scene.run)
                first.cancel()
                await asyncio.wait([first])

    async def run_asking(self, url, function, asked):
        async with session(url, tool(function, side_effects=True), policy=Policy(), approver=Yes(asked)) as scene:
            await scene.ask_async("Go.")


def copy(here, elsewhere):
    with closing(sqlite3.connect(here)) as left, closing(sqlite3.connect(elsewhere)) as found:
        left.backup(found)
    shutil.copy(here.with_suffix(".key"), elsewhere.with_suffix(".key"))


async def go_on(url, pay, path, run):
    async with await SqliteJournal.open(path) as journal, Executor([pay], journal=journal, policy=FREE) as executor:
        conversation = conversation_of(await journal.history(run))
        async with model_at(url) as llm:
            await Runner(llm.model, executor).run(conversation, Context(run=run))


if __name__ == "__main__":
    show(Handrail())
