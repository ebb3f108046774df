"""When a call is answered without running."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable
from typing import Any

import pytest

from handrail.core.calls import ToolResult
from handrail.execute.dedupe.create import ExactDeduplicator
from handrail.execute.dedupe.reuse import CallReuse
from tests.execute.dedupe.reuse_fixtures import CountedExecution, ReuseCaller, until_all_tasks_wait


@pytest.mark.requirement("converser.deduplicator")
async def test_a_repeated_read_is_answered_with_the_askers_id_and_names_the_call_that_ran() -> None:
    asker, work = ReuseCaller(ExactDeduplicator()), CountedExecution({"rows": 3})
    first, first_reused = await asker.read(work.by("call_1"), call="call_1")
    second, second_reused = await asker.read(work.by("call_2"), call="call_2")
    third, _ = await asker.read(work.by("call_3"), call="call_3")
    assert (work.runs, first_reused, second_reused) == (1, False, True)
    assert first == ToolResult("call_1", "read", {"rows": 3}, duration_us=7)
    assert second == ToolResult("call_2", "read", {"rows": 3}, reused_from="call_1")
    assert third.reused_from == "call_1"


async def test_other_arguments_and_other_scopes_run() -> None:
    asker, work = ReuseCaller(ExactDeduplicator()), CountedExecution()
    await asker.read(work.by("1"))
    await asker.read(work.by("2"), path="b")
    await asker.read(work.by("3"), scope="run/bob")
    assert work.runs == 3


@pytest.mark.requirement("converser.deduplicator")
async def test_equal_reads_in_flight_share_one_execution_without_any_deduplicator() -> None:
    asker, work = ReuseCaller(), CountedExecution({"rows": [1]}, gate=asyncio.Event())
    assert work.gate is not None
    tasks = [asyncio.create_task(asker.read(work.by(call), call=call)) for call in ("one", "two")]
    await until_all_tasks_wait()
    assert work.runs == 1
    work.gate.set()
    async with asyncio.timeout(30):
        (first, first_reused), (second, second_reused) = await asyncio.gather(*tasks)
    assert (first_reused, second_reused) == (False, True)
    assert second == ToolResult("two", "read", {"rows": [1]}, reused_from="one")
    second.content["rows"].append(2)
    assert first.content == {"rows": [1]}


async def test_reads_of_two_callers_never_share() -> None:
    asker, work = ReuseCaller(), CountedExecution(gate=asyncio.Event())
    assert work.gate is not None
    tasks = [asyncio.create_task(asker.read(work.by(who), scope=who)) for who in ("ann", "bob")]
    await until_all_tasks_wait()
    assert work.runs == 2
    work.gate.set()
    await asyncio.gather(*tasks)


async def test_sharing_can_be_switched_off() -> None:
    asker, work = ReuseCaller(), CountedExecution(gate=asyncio.Event())
    assert work.gate is not None
    tasks = [asyncio.create_task(asker.read(work.by("c"), share=False)) for _ in range(2)]
    await until_all_tasks_wait()
    assert work.runs == 2
    work.gate.set()
    await asyncio.gather(*tasks)


@pytest.mark.requirement("converser.deduplicator")
async def test_a_side_effect_is_never_answered_from_memory_or_shared() -> None:
    memory = ExactDeduplicator()
    memory.remember("run/ann", "write", {"value": 1}, None, ToolResult("old", "write"))
    asker, work = ReuseCaller(), CountedExecution(gate=asyncio.Event())
    assert work.gate is not None
    tasks = [asyncio.create_task(asker.write(work.by("c"), deduplicator=memory)) for _ in range(2)]
    await until_all_tasks_wait()
    assert work.runs == 2
    work.gate.set()
    await asyncio.gather(*tasks)
    await asker.write(work.by("c"), deduplicator=memory)
    assert work.runs == 3


async def test_an_idempotent_write_is_shared_and_remembered() -> None:
    memory, asker, work = ExactDeduplicator(), ReuseCaller(), CountedExecution(gate=asyncio.Event())
    assert work.gate is not None
    tasks = [
        asyncio.create_task(asker.write(work.by(call), call=call, idempotent=True, deduplicator=memory))
        for call in ("one", "two")
    ]
    await until_all_tasks_wait()
    work.gate.set()
    await asyncio.gather(*tasks)
    _, reused = await asker.write(work.by("three"), idempotent=True, deduplicator=memory)
    assert (work.runs, reused) == (1, True)


async def test_an_idempotent_write_runs_again_after_another_write_to_the_same_thing() -> None:
    memory, asker, work = ExactDeduplicator(), ReuseCaller(), CountedExecution()
    for value in (1, 2, 1):
        await asker.write(work.by("c"), value=value, resource="x", idempotent=True, deduplicator=memory)
    assert work.runs == 3


async def test_an_idempotent_write_in_flight_is_not_joined_after_another_write() -> None:
    asker, held, other = ReuseCaller(), CountedExecution(gate=asyncio.Event()), CountedExecution()
    assert held.gate is not None
    first = asyncio.create_task(asker.write(held.by("one"), value=1, idempotent=True))
    await held.started.wait()
    await asker.write(other.by("two"), value=2, idempotent=True)
    _, reused = await asker.write(other.by("three"), value=1, idempotent=True)
    assert (other.runs, reused) == (2, False)
    held.gate.set()
    await first


@pytest.mark.requirement("converser.deduplicator")
async def test_a_failure_is_not_remembered() -> None:
    asker, work = ReuseCaller(ExactDeduplicator()), CountedExecution()

    async def fail() -> ToolResult:
        return ToolResult("call_1", "read", "down", outcome="failed")

    await asker.read(fail)
    _, reused = await asker.read(work.by("call_2"))
    assert (work.runs, reused) == (1, False)


async def test_a_deduplicator_of_ones_own_is_not_given_failures_either() -> None:
    given: list[Any] = []

    class Keen(ExactDeduplicator):
        def remember(self, *args: Any) -> None:
            given.append(args)

    async def fail() -> ToolResult:
        return ToolResult("call_1", "read", "down", outcome="failed")

    result, _ = await ReuseCaller(Keen()).read(fail)
    assert (result.outcome, given) == ("failed", [])


async def test_an_exception_reaches_every_asker_and_is_not_remembered() -> None:
    asker, broken, work = (
        ReuseCaller(ExactDeduplicator()),
        CountedExecution(OSError("gone"), gate=asyncio.Event()),
        CountedExecution(),
    )
    assert broken.gate is not None
    tasks = [asyncio.create_task(asker.read(broken.by("c"))) for _ in range(2)]
    await until_all_tasks_wait()
    broken.gate.set()
    errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(error) for error in errors] == [OSError, OSError]
    assert (await asker.read(work.by("c")))[1] is False
    assert (broken.runs, work.runs) == (1, 1)


@pytest.mark.parametrize("ends", ["well", "badly", "raising", "cancelled"])
async def test_a_write_forgets_however_it_ends(ends: str) -> None:
    asker, work, held = ReuseCaller(ExactDeduplicator()), CountedExecution(), CountedExecution(gate=asyncio.Event())
    assert held.gate is not None
    await asker.read(work.by("c"))

    async def write() -> ToolResult:
        await held.by("w")()
        match ends:
            case "badly":
                return ToolResult("w", "write", outcome="failed")
            case "raising":
                raise OSError
        return ToolResult("w", "write")

    writing = asyncio.create_task(asker.write(write))
    await held.started.wait()
    await asker.read(work.by("c"))
    if ends == "cancelled":
        writing.cancel()
    held.gate.set()
    await asyncio.wait([writing], timeout=30)
    await asker.read(work.by("c"))
    assert work.runs == 3


@pytest.mark.parametrize(
    ("read", "written", "runs"), [("a", "a", 2), ("a", "b", 1), ("a", None, 2), (None, "b", 2), (None, None, 2)]
)
async def test_a_write_forgets_the_reads_it_may_have_changed(
    read: Hashable | None, written: Hashable | None, runs: int
) -> None:
    asker, work = ReuseCaller(ExactDeduplicator()), CountedExecution()
    await asker.read(work.by("c"), resource=read)
    await asker.write(CountedExecution().by("w"), resource=written)
    await asker.read(work.by("c"), resource=read)
    assert work.runs == runs


async def test_a_write_forgets_what_it_touches_in_every_scope() -> None:
    asker, work = ReuseCaller(ExactDeduplicator()), CountedExecution()
    await asker.read(work.by("c"), scope="run/ann")
    await asker.write(CountedExecution().by("w"), scope="run/bob")
    await asker.read(work.by("c"), scope="run/ann")
    assert work.runs == 2


async def test_a_read_that_a_write_overlapped_is_not_remembered() -> None:
    asker, held, work = (
        ReuseCaller(ExactDeduplicator()),
        CountedExecution("before", gate=asyncio.Event()),
        CountedExecution("after"),
    )
    assert held.gate is not None
    reading = asyncio.create_task(asker.read(held.by("one")))
    await held.started.wait()
    await asker.write(CountedExecution().by("w"))
    held.gate.set()
    await reading
    result, reused = await asker.read(work.by("two"))
    assert (result.content, reused) == ("after", False)


async def test_a_read_asked_after_a_write_does_not_join_one_that_began_before_it() -> None:
    asker, held, work = ReuseCaller(), CountedExecution("before", gate=asyncio.Event()), CountedExecution("after")
    assert held.gate is not None
    reading = asyncio.create_task(asker.read(held.by("one")))
    await held.started.wait()
    await asker.write(CountedExecution().by("w"))
    result, reused = await asker.read(work.by("two"))
    assert (result.content, reused) == ("after", False)
    held.gate.set()
    await reading


async def test_a_read_asked_while_a_write_runs_neither_joins_nor_repeats_another() -> None:
    asker, write = ReuseCaller(ExactDeduplicator()), CountedExecution(gate=asyncio.Event())
    held, ended, work = (
        CountedExecution("before", gate=asyncio.Event()),
        CountedExecution("before"),
        CountedExecution("after"),
    )
    assert write.gate is not None and held.gate is not None
    writing = asyncio.create_task(asker.write(write.by("w")))
    await write.started.wait()
    reading = asyncio.create_task(asker.read(held.by("one")))
    await held.started.wait()
    await asker.read(ended.by("two"), path="b")
    # Here the write may have taken effect: what was read before may be old already.
    assert (await asker.read(work.by("three")))[0].content == "after"
    assert (await asker.read(work.by("four"), path="b"))[0].content == "after"
    held.gate.set()
    write.gate.set()
    await asyncio.gather(writing, reading)


async def test_a_write_forgets_before_it_begins_and_after_it_has_ended() -> None:
    happened: list[str] = []

    class Watched(ExactDeduplicator):
        def forget(self, scope: str | None, resource: Hashable | None = None) -> None:
            happened.append(f"forget {resource}")

    async def write() -> ToolResult:
        happened.append("write")
        return ToolResult("w", "write")

    await ReuseCaller().write(write, resource="a", deduplicator=Watched())
    assert happened == ["forget a", "write", "forget a"]


async def test_an_effect_that_came_late_is_forgotten_when_it_is_reported() -> None:
    asker, held, work = (
        ReuseCaller(ExactDeduplicator()),
        CountedExecution("before", gate=asyncio.Event()),
        CountedExecution("after"),
    )
    assert held.gate is not None
    await asker.read(work.by("c"), path="b", resource="b")
    reading = asyncio.create_task(asker.read(held.by("one"), resource="a"))
    await held.started.wait()
    asker.reuse.wrote("a")
    held.gate.set()
    await reading
    result, _ = await asker.read(work.by("two"), resource="a")
    _, reused = await asker.read(work.by("c"), path="b", resource="b")
    assert (result.content, reused) == ("after", True)


async def test_if_the_first_asker_is_cancelled_the_next_one_runs_and_is_remembered_under_its_own_id() -> None:
    asker, work = ReuseCaller(ExactDeduplicator()), CountedExecution(gate=asyncio.Event())
    assert work.gate is not None
    tasks = [asyncio.create_task(asker.read(work.by(call), call=call)) for call in ("one", "two")]
    await until_all_tasks_wait()
    tasks[0].cancel()
    await until_all_tasks_wait()
    work.gate.set()
    result, reused = await tasks[1]
    later, _ = await asker.read(work.by("three"), call="three")
    assert (work.runs, result.tool_call_id, reused, later.reused_from) == (2, "two", False, "two")


async def test_a_call_is_remembered_as_it_was_asked_though_its_handler_changes_the_arguments() -> None:
    memory, arguments = ExactDeduplicator(), {"ids": [1]}

    async def execute() -> ToolResult:
        arguments["ids"].append(2)
        return ToolResult("c", "read")

    await CallReuse().run(
        call_id="c",
        deduplicator=memory,
        scope="s",
        name="read",
        arguments=arguments,
        resource=None,
        reads=True,
        may_reuse=True,
        share=True,
        execute=execute,
    )
    assert memory.find("s", "read", {"ids": [1]}, None) is not None
    assert memory.find("s", "read", {"ids": [1, 2]}, None) is None


async def test_a_result_that_cannot_be_kept_is_still_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    class Full(ExactDeduplicator):
        def remember(self, *args: Any) -> None:
            raise MemoryError

    asker, work = ReuseCaller(Full()), CountedExecution("done")
    with caplog.at_level(logging.ERROR):
        result, _ = await asker.read(work.by("c"))
    assert result.content == "done"
    assert "could not be remembered" in caplog.text
