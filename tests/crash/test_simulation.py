"""Runs that die at every kind of moment, under a seed: what must hold, holds in all of them.

A small share of what `python -m tests.crash.simulation` and `make soak` try.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from handrail import Conversation
from handrail.core.calls import ToolResult
from handrail.core.events import CallSettled, ReplyGiven, RunResumed
from handrail.core.messages import AssistantMessage, ResultMessage
from handrail.testing.loop import LoopClock, LoopStopped, LoopStuck, SeededLoop
from tests.crash.invariants import judge
from tests.crash.mortal_world import RUN, Effect
from tests.crash.simulation import CaseOutcome, SimulatedCase, cases, failures, listens, play, tried

SEEDS = 40
STEPS = 4
DISK_SEEDS = 12


def test_wherever_a_process_dies_the_run_ends_honestly() -> None:
    count, found = failures(range(SEEDS), STEPS)

    assert found == []
    assert count >= SEEDS * STEPS


def test_a_run_dies_at_every_single_step() -> None:
    assert failures(range(5000, 5001))[1] == []


def test_the_same_holds_with_a_real_journal_and_the_journal_verifies() -> None:
    assert failures(range(DISK_SEEDS), STEPS, disk=True)[1] == []


def test_a_seed_gives_the_same_life_again() -> None:
    one, other = play(SimulatedCase(7, 20)), play(SimulatedCase(7, 20))

    assert (one.kept, one.world.effects) == (other.kept, other.world.effects)


@pytest.fixture(scope="module")
def seen() -> list[CaseOutcome]:
    return [tried(case) for seed in range(60) for case in cases(seed, 40, 3)]


def test_the_lives_show_everything_that_they_are_there_to_show(seen: list[CaseOutcome]) -> None:
    """Else the tests above would hold of nothing."""
    outcomes = Counter(result.outcome for each in seen for result in _results(each.conversation))
    assert {"ok", "in_doubt", "timeout", "denied", "failed", "limit", "cancelled", "needs_confirmation"} <= set(
        outcomes
    )
    assert any(len(each.lives) > 3 for each in seen), "none died twice"
    assert any(_began_early(each) for each in seen), "no read began before its reply was whole"
    assert any(result.reused_from for each in seen for result in _results(each.conversation)), "no call was shared"
    typed = [each for each in seen if each.answers and len(each.lives) > 1]
    assert {each.plan.answer for each in typed if each.plan.wrong_answers} == {"tool", "schema"}, (
        "no answer was refused"
    )
    below = [event for each in seen for event in each.kept[-1] if event.run != RUN]
    settled = {event.outcome for event in below if isinstance(event, CallSettled)}
    assert {"ok", "in_doubt", "denied"} <= settled, "agents that calls run did too little"
    assert any(isinstance(event, RunResumed) for event in below), "no agent that a call runs was taken up again"
    spoke = [[each.model for each in case.conversation.messages if isinstance(each, AssistantMessage)] for case in seen]
    assert any({"first", "second"} <= set(each) for each in spoke), "nobody handed over"
    lost = (each for each in seen if each.plan.power and len(each.lives[0].told) > len(each.kept[0]))
    assert any(lost), "no power cut took anything with it"


def _results(conversation: Conversation) -> Iterator[ToolResult]:
    return (message.result for message in conversation.messages if isinstance(message, ResultMessage))


def _began_early(outcome: CaseOutcome) -> bool:
    kinds = [type(event) for event in outcome.kept[-1]]
    return ReplyGiven in kinds and CallSettled in kinds[: kinds.index(ReplyGiven)]


def test_the_judge_sees_an_effect_that_took_place_twice() -> None:
    outcome = _with("pay")
    paid = next(each for each in outcome.world.effects if each.kind == "pay")
    outcome.world.effects.append(Effect("pay", paid.n, paid.call_id, paid.key))

    assert any("twice" in each for each in _judged(outcome))


def test_the_judge_sees_an_answer_that_is_not_true() -> None:
    outcome = _with("pay")
    outcome.world.effects.clear()

    assert any("never took place" in each for each in _judged(outcome))


def test_the_judge_sees_an_answer_that_was_lost() -> None:
    outcome = _with("pay")
    outcome.kept[-1] = [event for event in outcome.kept[-1] if not isinstance(event, CallSettled)]

    assert any("was answered" in each for each in _judged(outcome))


def test_the_judge_sees_a_doubt_that_was_passed_over() -> None:
    outcome = _with("pay")
    paid = [each.run == RUN and isinstance(each, CallSettled) and each.tool == "pay" for each in outcome.kept[-1]]
    at = paid.index(True)
    outcome.kept[-1].insert(at, RunResumed(run="run", at=0, tools=""))

    assert any("begun and cut off" in each for each in _judged(outcome))


def _with(tool: str) -> CaseOutcome:
    """A life that went well, in which a tool did something."""
    for seed in filter(listens, range(1000)):
        outcome = play(SimulatedCase(seed))
        went_well = [result.name for result in _results(outcome.conversation) if result.outcome == "ok"]
        if tool in went_well and outcome.plan.on_error == "surface":
            outcome.plan = replace(outcome.plan, power=False)
            return outcome
    raise AssertionError(f"no seed has a {tool} that went well")


def _judged(outcome: CaseOutcome) -> list[str]:
    return judge(outcome.plan, outcome.world, outcome.lives, outcome.kept, outcome.conversation)


async def _race(order: list[int]) -> float:
    async def runner(n: int) -> None:
        await asyncio.sleep(60)
        order.append(n)

    await asyncio.gather(*(runner(n) for n in range(6)))
    return LoopClock().monotonic()


def test_a_seeded_loop_has_its_own_time_and_an_order_for_each_seed() -> None:
    orders: list[list[int]] = []
    for seed in (1, 1, 2, 3):
        orders.append([])
        assert SeededLoop(seed).run(_race(orders[-1])) == 60

    assert orders[0] == orders[1]
    assert len({tuple(each) for each in orders}) == 3
    assert all(sorted(each) == list(range(6)) for each in orders)


def test_a_seeded_loop_says_when_nothing_can_go_on() -> None:
    loop = SeededLoop()
    with pytest.raises(LoopStuck):
        loop.run(_waits_for_ever())
    loop.bury()


def test_a_seeded_loop_that_is_stopped_leaves_everything_as_it_is_until_it_is_buried() -> None:
    ended: list[str] = []

    async def main() -> None:
        try:
            asyncio.get_running_loop().stop()
            await asyncio.sleep(1)
        finally:
            ended.append("main")

    loop = SeededLoop()
    with pytest.raises(LoopStopped):
        loop.run(main())
    assert ended == []
    loop.bury()
    assert ended == ["main"]


async def _waits_for_ever() -> None:
    await asyncio.Event().wait()
