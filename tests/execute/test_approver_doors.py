"""Every part that takes an approver takes a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from handrail import RLM, CapabilityBus, Executor, Tool, ToolCall, ToolExecutor, ToolRegistry
from handrail.compat import nrv
from handrail.confirm import AnyApprover, Confirmation
from handrail.errors import HandrailError
from handrail.sync import BlockingExecutor
from handrail.testing import ScriptedModel, call, text
from tests.rlm.root_models import Root, repl


class Notes:
    def __init__(self) -> None:
        self.kept: list[str] = []

    @property
    def tool(self) -> Tool:
        async def keep(note: str) -> str:
            """Keep a note."""
            self.kept.append(note)
            return f"kept {note}"

        return Tool.from_function(keep, name="keep", side_effects=True)


async def by_executor(notes: Notes, approver: AnyApprover) -> None:
    async with Executor([notes.tool], approver=approver) as executor:
        await executor.invoke(ToolCall("1", "keep", {"note": "a"}))


async def by_blocking_executor(notes: Notes, approver: AnyApprover) -> None:
    with BlockingExecutor([notes.tool], approver=approver) as executor:
        executor.invoke(ToolCall("1", "keep", {"note": "a"}))


async def by_bus(notes: Notes, approver: AnyApprover) -> None:
    async with CapabilityBus(approver=approver) as bus:
        bus.register_tool(notes.tool, name="notes.keep")
        try:
            await bus.call("notes.keep", (1, 0), {"input": {"note": "a"}})
        except HandrailError as error:
            assert "denied" in str(error)


async def by_tool_executor(notes: Notes, approver: AnyApprover) -> None:
    async with CapabilityBus() as bus:
        await ToolExecutor(bus, [notes.tool], approver=approver).dispatch(ToolCall("1", "keep", {"note": "a"}))


async def by_nrv_client(notes: Notes, approver: AnyApprover) -> None:
    registry = ToolRegistry()
    registry.register(notes.tool)
    model = ScriptedModel([call("keep", note="a")], [text("Done.")])
    async with nrv.client(tools=registry.freeze(), model=model, approver=approver) as client:
        assert [event async for event in client.stream("Keep a.")]


async def by_rlm(notes: Notes, approver: AnyApprover) -> None:
    code = "try:\n    keep('a')\nexcept Exception:\n    pass\nanswer['content'] = 'Done.'\nanswer['ready'] = True"
    async with RLM(Root(repl(code)), environment="monty", custom_tools={"keep": notes.tool}, approver=approver) as rlm:
        await rlm.acompletion("x", "Keep a.")


@pytest.mark.parametrize(
    "door",
    [by_executor, by_blocking_executor, by_bus, by_tool_executor, by_nrv_client, by_rlm],
    ids=lambda door: door.__name__,
)
@pytest.mark.parametrize("allowed", [True, False])
async def test_a_function_decides(door: Callable[[Notes, AnyApprover], Awaitable[None]], allowed: bool) -> None:
    notes, asked = Notes(), list[str]()

    def decide(question: Confirmation) -> bool:
        asked.append(question.tool)
        return allowed

    await door(notes, decide)

    assert (len(asked), notes.kept) == (1, ["a"] if allowed else [])
