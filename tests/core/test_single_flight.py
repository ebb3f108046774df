"""Equal calls in flight share one execution."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, strategies as st

from handrail.core.single_flight import SingleFlight
from tests.execute.dedupe.reuse_fixtures import until_all_tasks_wait


class Work:
    """Starts of one piece of work: each says that it began, and waits to be let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.go = asyncio.Event()

    def by(self, who: str, error: Exception | None = None) -> Callable[[], Awaitable[str]]:
        async def start() -> str:
            self.begun.append(who)
            await self.go.wait()
            if error is not None:
                raise error
            return f"by {who}"

        return start


@pytest.mark.requirement("converser.deduplicator")
async def test_calls_that_overlap_share_one_execution() -> None:
    once, work = SingleFlight[object, str](leaders_wait=False), Work()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        tasks = [group.create_task(once.share("k", work.by(who))) for who in ("a", "b", "c")]
        await until_all_tasks_wait()
        assert work.begun == ["a"]
        assert not any(task.done() for task in tasks)
        work.go.set()
    assert [task.result() for task in tasks] == [("by a", False), ("by a", True), ("by a", True)]


async def test_different_keys_run_side_by_side() -> None:
    once = SingleFlight[object, str](leaders_wait=False)
    both = asyncio.Barrier(2)

    async def start() -> str:
        await both.wait()
        return "met"

    async with asyncio.timeout(30):
        one, two = await asyncio.gather(once.share(1, start), once.share(2, start))
    assert (one, two) == (("met", False), ("met", False))


async def test_nothing_is_kept_after_the_execution() -> None:
    once, work = SingleFlight[object, str](leaders_wait=False), Work()
    work.go.set()
    await once.share("k", work.by("a"))
    assert len(once) == 0
    assert await once.share("k", work.by("b")) == ("by b", False)


async def test_an_exception_goes_to_everybody_who_waits() -> None:
    once, work, error = SingleFlight[object, str](leaders_wait=False), Work(), ValueError("no")
    tasks = [asyncio.create_task(once.share("k", work.by(who, error))) for who in ("a", "b", "c")]
    await until_all_tasks_wait()
    work.go.set()
    async with asyncio.timeout(30):
        assert await asyncio.gather(*tasks, return_exceptions=True) == [error] * 3
    assert (work.begun, len(once)) == (["a"], 0)


async def test_if_the_first_is_cancelled_the_next_in_line_runs_it_itself() -> None:
    once, work = SingleFlight[object, str](leaders_wait=False), Work()
    tasks = [asyncio.create_task(once.share("k", work.by(who))) for who in ("a", "b", "c")]
    await until_all_tasks_wait()
    tasks[0].cancel()
    await until_all_tasks_wait()
    assert work.begun == ["a", "b"]
    work.go.set()
    async with asyncio.timeout(30):
        assert await asyncio.gather(*tasks[1:]) == [("by b", False), ("by b", True)]
    assert tasks[0].cancelled()


async def test_when_all_are_cancelled_in_turn_nothing_is_left() -> None:
    once, work = SingleFlight[object, str](leaders_wait=False), Work()
    tasks = [asyncio.create_task(once.share("k", work.by(who))) for who in ("a", "b", "c")]
    for task in tasks:
        await until_all_tasks_wait()
        task.cancel()
    await asyncio.wait(tasks, timeout=30)
    assert all(task.cancelled() for task in tasks)
    assert (work.begun, len(once)) == (["a", "b", "c"], 0)


async def test_a_cancelled_waiter_does_not_disturb_the_others() -> None:
    once, work = SingleFlight[object, str](leaders_wait=False), Work()
    tasks = [asyncio.create_task(once.share("k", work.by(who))) for who in ("a", "b", "c")]
    await until_all_tasks_wait()
    tasks[1].cancel()
    await until_all_tasks_wait()
    assert tasks[1].cancelled()
    work.go.set()
    async with asyncio.timeout(30):
        first, third = await asyncio.gather(tasks[0], tasks[2])
    assert (first, third) == (("by a", False), ("by a", True))
    assert work.begun == ["a"]


async def test_work_that_asks_for_itself_does_not_wait_for_itself() -> None:
    once = SingleFlight[object, int](leaders_wait=False)

    async def countdown(left: int) -> int:
        if left == 0:
            return 0
        value, _ = await once.share("k", lambda: countdown(left - 1))
        return value + 1

    async with asyncio.timeout(30):
        assert await once.share("k", lambda: countdown(3)) == (3, False)


async def test_two_pieces_of_work_that_ask_for_each_other_do_not_wait_in_a_circle() -> None:
    once = SingleFlight[object, str](leaders_wait=False)
    both = asyncio.Barrier(2)

    async def inner() -> str:
        return "inner"

    async def outer(other: str) -> str:
        await both.wait()
        value, _ = await once.share(other, inner)
        return f"outer of {value}"

    async with asyncio.timeout(30):
        x, y = await asyncio.gather(once.share("x", lambda: outer("y")), once.share("y", lambda: outer("x")))
    assert (x, y) == (("outer of inner", False), ("outer of inner", False))


async def test_no_task_is_made_for_the_work() -> None:
    once = SingleFlight[object, asyncio.Task[object] | None](leaders_wait=False)

    async def start() -> asyncio.Task[object] | None:
        return asyncio.current_task()

    assert await once.share("k", start) == (asyncio.current_task(), False)


async def test_a_turn_is_one_at_a_time_and_each_who_waits_gets_its_own() -> None:
    flights, order = SingleFlight[str, None](), list[int]()

    async def take(at: int) -> None:
        with await flights.lead("k", at):
            assert len(flights) == 1 and "k" in flights
            await asyncio.sleep(0)
            order.append(at)

    async with asyncio.timeout(30):
        await asyncio.gather(*map(take, range(10)))
    assert (sorted(order), len(flights)) == (list(range(10)), 0)


async def test_who_may_not_wait_says_so_by_the_note_of_the_flight() -> None:
    flights = SingleFlight[str, None]()

    def refuse(note: str) -> None:
        raise ValueError(note)

    with await flights.lead("k", "first"):
        with pytest.raises(ValueError, match="first"):
            await flights.lead("k", "second", may_wait=refuse)
        with pytest.raises(TimeoutError):
            await flights.lead("k", "second", until=0.0)
    with await flights.lead("k", "third", may_wait=refuse, until=0.0):
        assert "k" in flights


@given(st.lists(st.sampled_from(["value", "error", "cancelled"]), min_size=1, max_size=6))
def test_each_asker_gets_the_outcome_of_the_first_who_was_not_cancelled(ends: list[str]) -> None:
    """Askers come at once; the one who leads ends in its own way, and the next lead only after a cancelled one."""

    async def asked() -> tuple[list[str], list[int]]:
        flights, ran = SingleFlight[str, str](), list[int]()

        async def work(at: int) -> str:
            ran.append(at)
            await asyncio.sleep(0)
            if ends[at] == "cancelled":
                raise asyncio.CancelledError
            if ends[at] == "error":
                raise ValueError(str(at))
            return str(at)

        async def ask(at: int) -> str:
            try:
                value, shared = await flights.share("k", lambda: work(at))
                return f"{'shared' if shared else 'own'} {value}"
            except ValueError as error:
                return f"error {error}"
            except asyncio.CancelledError:
                return "cancelled"

        found = await asyncio.gather(*map(ask, range(len(ends))))
        assert len(flights) == 0
        return found, ran

    found, ran = asyncio.run(asked())
    first = next((at for at, end in enumerate(ends) if end != "cancelled"), len(ends))
    assert ran == list(range(min(first + 1, len(ends))))
    assert found[:first] == ["cancelled"] * first
    if first < len(ends):
        assert found[first] == (f"error {first}" if ends[first] == "error" else f"own {first}")
        assert set(found[first + 1 :]) <= {f"error {first}" if ends[first] == "error" else f"shared {first}"}
