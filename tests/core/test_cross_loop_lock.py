"""A lock that coroutines of several event loops take in turn."""

from __future__ import annotations

import asyncio
import threading

from handrail.core.cross_loop_lock import CrossLoopLock


async def hold(lock: CrossLoopLock, name: str, seen: list[str]) -> None:
    async with lock:
        seen.append(f"{name} in")
        await asyncio.sleep(0)
        seen.append(f"{name} out")


async def test_coroutines_of_one_loop_have_it_in_the_order_of_asking() -> None:
    lock, seen = CrossLoopLock(), list[str]()

    await asyncio.gather(*(hold(lock, name, seen) for name in "abc"))

    assert seen == ["a in", "a out", "b in", "b out", "c in", "c out"]


def test_coroutines_of_several_loops_have_it_one_after_the_other() -> None:
    lock, seen = CrossLoopLock(), list[str]()

    def work(name: str) -> None:
        async def often() -> None:
            for _ in range(50):
                await hold(lock, name, seen)

        asyncio.run(often())

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    entered, left = seen[::2], seen[1::2]
    assert len(seen) == 300
    assert [each.removesuffix(" in") for each in entered] == [each.removesuffix(" out") for each in left]


async def test_a_wait_that_is_cancelled_leaves_the_turn_to_the_next() -> None:
    lock, seen = CrossLoopLock(), list[str]()
    async with lock:
        first, second = (asyncio.create_task(hold(lock, name, seen)) for name in "ab")
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
    await second

    assert seen == ["b in", "b out"]


async def test_a_wait_that_is_cancelled_as_its_turn_comes_passes_it_on() -> None:
    lock, seen = CrossLoopLock(), list[str]()
    async with lock:
        first, second = (asyncio.create_task(hold(lock, name, seen)) for name in "ab")
        await asyncio.sleep(0)
    first.cancel()  # the lock was handed to it, and it does not know yet
    await asyncio.wait([first])
    await second

    assert seen == ["b in", "b out"]


async def test_a_loop_that_was_closed_while_it_waited_is_passed_over() -> None:
    lock, seen = CrossLoopLock(), list[str]()
    other = asyncio.new_event_loop()
    async with lock:
        waiting = lock.__aenter__()
        turn = await asyncio.to_thread(_begin_waiting, other, waiting)
        other.close()
        after = asyncio.create_task(hold(lock, "b", seen))
        await asyncio.sleep(0)
    await after
    waiting.close()

    assert (seen, turn.done()) == (["b in", "b out"], False)


def _begin_waiting(loop: asyncio.AbstractEventLoop, waiting: object) -> asyncio.Future[None]:
    """Take the first step of a coroutine in a loop, as far as the future that it waits for."""

    async def step() -> asyncio.Future[None]:
        return waiting.send(None)  # type: ignore[attr-defined, no-any-return]  # a coroutine

    return loop.run_until_complete(step())
