"""No call is ever answered with something that was not true between the question and the answer.

Hypothesis drives reads, writes and cancellations through every order it can think of, one
step of the loop at a time, over a world of two cells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from handrail.core.calls import ToolResult
from handrail.execute.dedupe.create import ExactDeduplicator
from handrail.execute.dedupe.reuse import CallReuse
from tests.examples import examples

RESOURCES = {"x": "x", "y": None}
"""The two cells. What a call for the second one touches cannot be told."""
cells = st.sampled_from(["x", "x", "y"])
picks = st.integers(0, 3)


@dataclass(eq=False)
class Step:
    """A call on its way: it acts on the world at one gate and answers at the next."""

    cell: str
    true_meanwhile: set[int]
    """Every value that its cell has had since it was asked."""
    act: asyncio.Event = field(default_factory=asyncio.Event)
    answer: asyncio.Event = field(default_factory=asyncio.Event)


class TwoCells(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.reuse = CallReuse()
        self.memory = ExactDeduplicator()
        self.world = dict.fromkeys(RESOURCES, 0)
        self.steps: dict[Step, asyncio.Task[tuple[ToolResult, bool]]] = {}

    @rule(cell=cells)
    def ask_to_read(self, cell: str) -> None:
        step = self.step(cell)
        self.begin(step, partial(self.read, step), {}, reads=True, may_reuse=True)

    @rule(cell=cells, value=st.integers(1, 2), idempotent=st.booleans())
    def ask_to_write(self, cell: str, value: int, idempotent: bool) -> None:
        step = self.step(cell)
        self.begin(step, partial(self.write, step, value), {"value": value}, reads=False, may_reuse=idempotent)

    @precondition(lambda self: self.steps)
    @rule(pick=picks)
    def let_one_go_on(self, pick: int) -> None:
        step = list(self.steps)[pick % len(self.steps)]
        gate = step.answer if step.act.is_set() else step.act
        gate.set()
        self.turn()

    @rule(pick=picks)
    def let_another_go_on(self, pick: int) -> None:
        """The same again, so that more is finished than begun."""
        if self.steps:
            self.let_one_go_on(pick)

    @precondition(lambda self: self.steps)
    @rule(pick=picks)
    def cancel_one(self, pick: int) -> None:
        list(self.steps.values())[pick % len(self.steps)].cancel()
        self.turn()

    @invariant()
    def every_answer_was_true_between_question_and_answer(self) -> None:
        for step, task in list(self.steps.items()):
            if task.done():
                del self.steps[step]
                if not task.cancelled():
                    assert task.result()[0].content in step.true_meanwhile

    def teardown(self) -> None:
        for task in self.steps.values():
            task.cancel()
        self.turn()
        assert len(self.reuse._once) == 0
        self.loop.close()

    def step(self, cell: str) -> Step:
        return Step(cell, {self.world[cell]})

    def begin(
        self,
        step: Step,
        execute: Callable[[], Awaitable[ToolResult]],
        arguments: dict[str, Any],
        *,
        reads: bool,
        may_reuse: bool,
    ) -> None:
        call = self.reuse.run(
            call_id="c",
            deduplicator=self.memory,
            scope="s",
            name="read" if reads else "write",
            arguments={**arguments, "cell": step.cell},
            resource=RESOURCES[step.cell],
            reads=reads,
            may_reuse=may_reuse,
            share=True,
            execute=execute,
        )
        self.steps[step] = self.loop.create_task(call)
        self.turn()

    async def read(self, step: Step) -> ToolResult:
        await step.act.wait()
        seen = self.world[step.cell]
        await step.answer.wait()
        return ToolResult("c", "read", seen)

    async def write(self, step: Step, value: int) -> ToolResult:
        await step.act.wait()
        self.world[step.cell] = value
        for other in self.steps:
            if other.cell == step.cell:
                other.true_meanwhile.add(value)
        await step.answer.wait()
        return ToolResult("c", "write", value)

    def turn(self) -> None:
        """Let everything that can go on go on."""
        for _ in range(8):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()


@pytest.mark.requirement("converser.deduplicator")
def test_no_answer_is_older_than_its_question() -> None:
    tried = settings(max_examples=examples(300), stateful_step_count=25, deadline=None)
    run_state_machine_as_test(TwoCells, settings=tried)
