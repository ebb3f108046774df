"""A cell with everything around it that it has in a run: prelude, bridge, executor, models. No root model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from handrail.core.calls import ToolCall
from handrail.core.context import Context
from handrail.core.invocation import Invocation
from handrail.core.ports import Journal, Model
from handrail.execute.executor import Executor
from handrail.execute.policy import Policy
from handrail.rlm.query.queries import Queries
from handrail.rlm.repl.bridge import ReplBridge
from handrail.rlm.repl.handler_channel import Channels
from handrail.rlm.repl.prelude import prelude
from handrail.rlm.repl.query_tools import query_tools
from handrail.run.code.callers import LiveCaller
from handrail.sandbox.port import Cell, Repl, ReplLimits, create_sandbox
from handrail.tools.definition import ToolDefinition
from handrail.tools.tool import Tool, as_tool

RUN = "run_1"
CELL = ToolDefinition("cell", "Run code.", {"type": "object"}, timeout=60.0)


class Scene:
    def __init__(
        self,
        repl: Repl,
        model: Model,
        tools: Sequence[Any] = (),
        journal: Journal | None = None,
        policy: Policy = Policy(),
    ) -> None:
        self.repl = repl
        self.queries = Queries({}, model, journal=journal)
        self.custom = [as_tool(each) for each in tools]
        self.cell: Cell | None = None
        self.bridge: ReplBridge | None = None
        channels: Channels = {}
        self.channels = channels
        own = query_tools(self.queries, channels)
        self._names = {tool.name for tool in (*own, *self.custom)}
        cell = Tool(CELL, self._perform, style="invocation", isolation="loop", share=False, replays=True)
        self.executor = Executor([*own, *self.custom, cell], journal=journal, policy=policy)

    async def _perform(self, invocation: Invocation) -> str:
        peek = tuple(invocation.arguments.get("peek", ()))
        channels, spend = self.channels, self.queries.spend
        async with ReplBridge(LiveCaller(invocation), invocation.id, self._names, channels, spend=spend) as bridge:
            self.bridge = bridge
            self.cell = await self.repl.run(invocation.arguments["code"], bridge, peek=peek)
        return "ran"

    async def run(self, code: str, id: str = "c1", *, peek: tuple[str, ...] = ()) -> Cell:
        """One cell, as one call of this id."""
        result = await self.executor.invoke(ToolCall(id, "cell", {"code": code, "peek": peek}), Context(run=RUN))
        assert result.text == "ran", result.text
        assert self.cell is not None
        return self.cell

    async def value(self, code: str, id: str = "c1") -> Any:
        """What code leaves in `out`."""
        cell = await self.run(code, id, peek=("out",))
        assert cell.ending == "ok", cell.error
        return cell.values["out"]


@asynccontextmanager
async def scene(
    kind: str,
    model: Model,
    tools: Sequence[Any] = (),
    journal: Journal | None = None,
    policy: Policy = Policy(confirm_side_effects=False),
    limits: ReplLimits = ReplLimits(),
) -> AsyncGenerator[Scene, None]:
    async with create_sandbox(kind, limits) as sandbox:
        made = Scene(await sandbox.repl(), model, tools, journal, policy)
        async with made.executor:
            begun = await made.repl.run(prelude(made.custom))
            assert begun.ending == "ok", begun.error
            yield made
