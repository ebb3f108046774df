"""Trying a tool by hand: told as it goes, asked about, recorded; it goes on when nobody looks, until it is stopped."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import UsageError
from handrail.desk.desk import Desk
from handrail.desk.trials import ToolTrial
from handrail.desk.values import LiveCall
from handrail.desk.views.desk_views import DeskViews
from tests.desk.views_folder import ViewsFolder


@pytest.fixture
def house(tmp_path: Path) -> Iterator[ViewsFolder]:
    yield ViewsFolder(tmp_path)
    sys.modules.pop("looked_at", None)  # another test has its own


@asynccontextmanager
async def opened(house: ViewsFolder) -> AsyncIterator[tuple[Desk, DeskViews]]:
    async with asyncio.timeout(20), house.open() as (app, views), Desk(app, house.asking, by="ada") as desk:
        yield desk, views


async def frames(desk: Desk, name: str, arguments: dict[str, Any] | str) -> list[tuple[str, Any]]:
    async with aclosing(desk.trials.begin(name, arguments).follow()) as found:
        return [frame async for frame in found]


async def seen(trial: ToolTrial, event: str, stage: str = "") -> Any:
    """Look at it until this is told, and leave."""
    async with aclosing(trial.follow()) as found:
        async for told, data in found:
            if told == event and (not stage or data.stage == stage):
                return data
    raise AssertionError(f"it ended without a {event}")


async def ended(trial: ToolTrial) -> None:
    """Wait for its end without looking at it."""
    await asyncio.wait({trial._ending})


def last(found: list[tuple[str, Any]]) -> LiveCall:
    event, call = found[-1]
    assert event == "call" and isinstance(call, LiveCall) and call.stage == "done"
    return call


async def test_a_tool_is_run_and_its_result_is_the_last_that_is_told(house: ViewsFolder) -> None:
    async with opened(house) as (desk, views):
        call = last(await frames(desk, "add", {"a": 1, "b": 2}))
        (row,) = (await views.proofs.runs()).runs

    assert (call.name, call.outcome, call.arguments) == ("desk:add", "ok", {"a": 1, "b": 2})
    assert call.result is not None and call.result.text == "3"
    assert (row.calls, row.state, call.run) == (1, "done", row.run)


async def test_progress_is_told_and_a_hostile_result_comes_as_it_is(house: ViewsFolder) -> None:
    async with opened(house) as (desk, _):
        found = await frames(desk, "climb", {})

    assert last(found).says == "step 3"
    result = last(found).result
    assert result is not None and result.text == "<script>alert(1)</script>"


async def test_arguments_that_do_not_fit_are_answered_with_the_reasons(house: ViewsFolder) -> None:
    async with opened(house) as (desk, _):
        wrong, garbled = last(await frames(desk, "add", {"a": "x"})), last(await frames(desk, "add", "{'a':"))

    assert wrong.outcome == "invalid_arguments" and wrong.result is not None and "a:" in wrong.result.text
    assert garbled.outcome == "invalid_arguments"


async def test_a_side_effect_waits_for_approval(house: ViewsFolder) -> None:
    events: list[str] = []
    async with opened(house) as (desk, _):
        async for event, data in desk.trials.begin("note", {"text": "beer"}).follow():
            events.append(event)
            if event == "question":
                assert (data.tool, data.arguments) == ("desk:note", {"text": "beer"})
                assert house.code.notes == []
                assert desk.questions == (data,)
                await desk.decide(data.request, "allow")
            if event == "answered":
                assert data["decision"] == "allow"

    assert house.code.notes == ["beer"]
    assert events[-1] == "call" and {"question", "answered"} <= set(events)


async def test_what_a_rule_allows_needs_no_word(house: ViewsFolder) -> None:
    async with opened(house) as (desk, _):
        assert last(await frames(desk, "note", {"text": "tea"})).outcome == "ok"


async def test_a_secret_is_never_told(house: ViewsFolder) -> None:
    async with opened(house) as (desk, _):
        found = await frames(desk, "open", {"code": "hunter2000"})

    shown = [data.arguments for event, data in found if event == "call"]
    assert all("hunter2000" not in str(each) for each in shown)
    assert last(found).outcome == "ok"


async def test_a_side_effect_that_was_begun_ends_though_nobody_looks_and_is_found_again(house: ViewsFolder) -> None:
    async with opened(house) as (desk, views):
        trial = desk.trials.begin("slowly", {"text": "beer"})
        await desk.decide((await seen(trial, "question")).request, "allow")
        await seen(trial, "call", "running")
        (found,) = desk.trials.of("desk:slowly")
        assert (found.run, found.stage) == (trial.run, "running")

        house.code.go_on.set()
        await ended(trial)
        assert house.code.notes == ["beer"]
        (found,) = desk.trials.of("desk:slowly")
        assert (found.run, found.stage, found.outcome) == (trial.run, "done", "ok")
        assert (await views.proofs.runs()).runs[0].state == "done"

        assert (await seen(desk.trials.find(found.run), "call")).outcome == "ok"


async def test_its_question_waits_for_whoever_comes_back(house: ViewsFolder) -> None:
    async with opened(house) as (desk, _):
        trial = desk.trials.begin("note", {"text": "beer"})
        asked = await seen(trial, "question")
        assert desk.questions == (asked,) and house.code.notes == []
        assert await seen(desk.trials.find(trial.run), "question") == asked
        await desk.decide(asked.request, "allow")
        assert (await seen(trial, "call", "done")).outcome == "ok"
    assert house.code.notes == ["beer"]


async def test_a_trial_is_stopped_by_a_person_and_two_who_look_are_both_told(house: ViewsFolder) -> None:
    async with opened(house) as (desk, views):
        trial = desk.trials.begin("stay", {})
        await seen(trial, "call", "running")
        looking = [asyncio.create_task(seen(trial, "call", "done")) for _ in range(2)]
        await asyncio.gather(trial.stop(), trial.stop())

        assert [(await each).outcome for each in looking] == ["cancelled"] * 2
        assert house.code.left == [True]
        (row,) = (await views.proofs.runs()).runs
        assert (row.calls, row.failed, row.state) == (1, 1, "done")
        assert not desk.app.executor.runs.holds(row.run)
        assert not desk.trials.under_way
        await trial.stop()  # it is over: nothing happens


async def test_a_trial_that_is_stopped_before_it_began_is_told_as_cancelled_and_changes_nothing(
    house: ViewsFolder,
) -> None:
    async with opened(house) as (desk, _):
        trial = desk.trials.begin("note", {"text": "beer"})
        await trial.stop()
        assert (await seen(trial, "call", "done")).outcome == "cancelled"
        assert [each.stage for each in desk.trials.of(trial.call.name)] == ["done"]
    assert house.code.notes == []


async def test_a_question_goes_with_the_trial_that_is_stopped(house: ViewsFolder) -> None:
    async with opened(house) as (desk, _):
        trial = desk.trials.begin("note", {"text": "beer"})
        await seen(trial, "question")
        await trial.stop()
        assert desk.questions == () and house.code.notes == []


async def test_the_end_of_the_desk_ends_what_is_tried(house: ViewsFolder) -> None:
    async with opened(house) as (desk, _):
        trial = desk.trials.begin("stay", {})
        await seen(trial, "call", "running")
    assert house.code.left == [True] and trial.call.outcome == "cancelled"
    with pytest.raises(UsageError, match="closed"):
        desk.trials.begin("stay", {})


async def test_only_so_many_that_are_over_are_kept(house: ViewsFolder) -> None:
    async with opened(house) as (desk, _):
        first = desk.trials.begin("add", {"a": 1, "b": 2})
        await ended(first)
        for _ in range(40):
            await ended(desk.trials.begin("add", {"a": 1, "b": 2}))
        with pytest.raises(UsageError, match="the record has"):
            desk.trials.find(first.run)


async def test_a_tool_that_is_not_there_cannot_be_tried(house: ViewsFolder) -> None:
    async with opened(house) as (desk, _):
        with pytest.raises(UsageError):
            desk.trials.begin("nothing", {})
