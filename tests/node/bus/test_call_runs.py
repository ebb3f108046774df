"""Which run a call is in: one for each session of each caller, and for others one after the other."""

from __future__ import annotations

import pytest

from handrail.node.bus import call_runs
from handrail.node.bus.call_runs import BusRuns
from handrail.testing.clock import FixedClock
from handrail.testing.ids import CountedIds
from handrail.tools.registry import RegisteredTools


class Scene:
    def __init__(self) -> None:
        self.clock = FixedClock()
        self.finished: list[str] = []
        self.tools = RegisteredTools(())
        self.runs = BusRuns(CountedIds(), self.clock, self._finish)

    async def _finish(self, run: str) -> None:
        self.finished.append(run)

    def call(self, principal: str = "ann", session: str | None = None, size: int = 0, alone: str | None = None) -> str:
        run = self.runs.begin(principal, session, self.tools, alone)
        self.runs.end(run, size)
        return run.id


async def test_a_session_is_one_run_for_each_caller_and_the_same_in_another_life() -> None:
    one, two = Scene(), Scene()

    assert one.call(session="s") == one.call(session="s") == two.call(session="s")
    assert len({one.call("ann", "s"), one.call("bob", "s"), one.call("ann", "t")}) == 3


async def test_callers_without_a_session_get_another_run_after_so_many_calls_or_so_much() -> None:
    scene = Scene()
    first = {scene.call() for _ in range(call_runs.CALLS)}
    second = scene.call(size=call_runs.BYTES)
    third = scene.call()
    await scene.runs.aclose()

    assert len(first) == 1
    assert len({*first, second, third}) == 3
    assert sorted(scene.finished) == sorted({*first, second, third})


async def test_with_other_tools_another_run_begins() -> None:
    scene = Scene()
    before = scene.call(), scene.call(session="s")
    scene.tools = RegisteredTools(())

    assert scene.call() != before[0]
    assert scene.call(session="s") == before[1]  # other tools of the same names and schemas are the same


async def test_a_run_ends_with_the_last_of_its_calls() -> None:
    scene = Scene()
    under_way = scene.runs.begin("ann", None, scene.tools)
    for _ in range(call_runs.CALLS):
        scene.call()
    assert scene.finished == []
    scene.runs.end(under_way, 0)
    await scene.runs.aclose()

    assert scene.finished[0] == under_way.id


@pytest.mark.parametrize("session", [None, "s"])
async def test_runs_of_callers_who_are_gone_are_ended(session: str | None) -> None:
    scene = Scene()
    gone = scene.call("ann", session)
    scene.clock.advance(call_runs.IDLE + 1)
    scene.call("bob", session)
    many = [scene.call(f"p{n}", session) for n in range(call_runs.OPEN + 1)]
    await scene.runs.aclose()

    assert scene.finished.index(gone) < scene.finished.index(many[0]) < scene.finished.index(many[-1])


async def test_a_side_effect_with_an_id_has_a_run_to_itself() -> None:
    scene = Scene()

    assert scene.call(alone="pay-1") == Scene().call(alone="pay-1")
    assert len({scene.call(alone="pay-1"), scene.call(alone="pay-2"), scene.call("bob", alone="pay-1")}) == 3
