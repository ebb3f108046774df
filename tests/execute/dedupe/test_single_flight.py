"""Equal calls in flight share one execution."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from handrail.execute.dedupe.single_flight import SingleFlight
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
    once, work = SingleFlight[str](), Work()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        tasks = [group.create_task(once.share("k", work.by(who))) for who in ("a", "b", "c")]
        await until_all_tasks_wait()
        assert work.begun == ["a"]
        assert not any(task.done() for task in tasks)
        work.go.set()
    assert [task.result() for task in tasks] == [("by a", False), ("by a", True), ("by a", True)]


async def test_different_keys_run_side_by_side() -> None:
    once = SingleFlight[str]()
    both = asyncio.Barrier(2)

    async def start() -> str:
        await both.wait()
        return "met"

    async with asyncio.timeout(30):
        one, two = await asyncio.gather(once.share(1, start), once.share(2, start))
    assert (one, two) == (("met", False), ("met", False))


async def test_nothing_is_kept_after_the_execution() -> None:
    once, work = SingleFlight[str](), Work()
    work.go.set()
    await once.share("k", work.by("a"))
    assert len(once) == 0
    assert await once.share("k", work.by("b")) == ("by b", False)


async def test_an_exception_goes_to_everybody_who_waits() -> None:
    once, work, error = SingleFlight[str](), Work(), ValueError("no")
    tasks = [asyncio.create_task(once.share("k", work.by(who, error))) for who in ("a", "b", "c")]
    await until_all_tasks_wait()
    work.go.set()
    async with asyncio.timeout(30):
        assert await asyncio.gather(*tasks, return_exceptions=True) == [error] * 3
    assert (work.begun, len(once)) == (["a"], 0)


async def test_if_the_first_is_cancelled_the_next_in_line_runs_it_itself() -> None:
    once, work = SingleFlight[str](), Work()
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
    once, work = SingleFlight[str](), Work()
    tasks = [asyncio.create_task(once.share("k", work.by(who))) for who in ("a", "b", "c")]
    for task in tasks:
        await until_all_tasks_wait()
        task.cancel()
    await asyncio.wait(tasks, timeout=30)
    assert all(task.cancelled() for task in tasks)
    assert (work.begun, len(once)) == (["a", "b", "c"], 0)


async def test_a_cancelled_waiter_does_not_disturb_the_others() -> None:
    once, work = SingleFlight[str](), Work()
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
    once = SingleFlight[int]()

    async def countdown(left: int) -> int:
        if left == 0:
            return 0
        value, _ = await once.share("k", lambda: countdown(left - 1))
        return value + 1

    async with asyncio.timeout(30):
        assert await once.share("k", lambda: countdown(3)) == (3, False)


async def test_two_pieces_of_work_that_ask_for_each_other_do_not_wait_in_a_circle() -> None:
    once = SingleFlight[str]()
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
    once = SingleFlight[asyncio.Task[object] | None]()

    async def start() -> asyncio.Task[object] | None:
        return asyncio.current_task()

    assert await once.share("k", start) == (asyncio.current_task(), False)
