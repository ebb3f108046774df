"""Trying a tool by hand: told as it goes, asked about, recorded, and ended when nobody looks any more."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import UsageError
from handrail.desk.desk import Desk
from handrail.desk.values import LiveCall
from handrail.desk.views.views import DeskViews
from tests.desk.looking import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    yield House(tmp_path)
    sys.modules.pop("looked_at", None)  # another test has its own


async def frames(views: DeskViews, name: str, arguments: dict[str, Any] | str) -> list[tuple[str, Any]]:
    async with asyncio.timeout(20), aclosing(views.tried(name, arguments)) as found:
        return [frame async for frame in found]


def last(found: list[tuple[str, Any]]) -> LiveCall:
    event, call = found[-1]
    assert event == "call" and isinstance(call, LiveCall) and call.stage == "done"
    return call


async def test_a_tool_is_run_and_its_result_is_the_last_that_is_told(house: House) -> None:
    async with house.open() as (_, views):
        call = last(await frames(views, "add", {"a": 1, "b": 2}))
        (row,) = (await views.proofs.runs()).runs

    assert (call.name, call.outcome, call.arguments) == ("desk:add", "ok", {"a": 1, "b": 2})
    assert call.result is not None and call.result.text == "3"
    assert (row.calls, row.state, call.run) == (1, "done", row.run)


async def test_progress_is_told_and_a_hostile_result_comes_as_it_is(house: House) -> None:
    async with house.open() as (_, views):
        found = await frames(views, "climb", {})

    assert last(found).says == "step 3"
    result = last(found).result
    assert result is not None and result.text == "<script>alert(1)</script>"


async def test_arguments_that_do_not_fit_are_answered_with_the_reasons(house: House) -> None:
    async with house.open() as (_, views):
        wrong, garbled = last(await frames(views, "add", {"a": "x"})), last(await frames(views, "add", "{'a':"))

    assert wrong.outcome == "invalid_arguments" and wrong.result is not None and "a:" in wrong.result.text
    assert garbled.outcome == "invalid_arguments"


async def test_a_side_effect_waits_for_a_word(house: House) -> None:
    events: list[str] = []
    async with house.open() as (app, views), Desk(app, house.asking, by="ada") as desk, asyncio.timeout(20):
        found = views.tried("note", {"text": "beer"})
        async for event, data in found:
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


async def test_what_a_rule_allows_needs_no_word(house: House) -> None:
    async with house.open() as (_, views):
        assert last(await frames(views, "note", {"text": "tea"})).outcome == "ok"


async def test_a_secret_is_never_told(house: House) -> None:
    async with house.open() as (_, views):
        found = await frames(views, "open", {"code": "hunter2000"})

    shown = [data.arguments for event, data in found if event == "call"]
    assert all("hunter2000" not in str(each) for each in shown)
    assert last(found).outcome == "ok"


async def test_whoever_leaves_ends_the_call_and_its_run(house: House) -> None:
    async with house.open() as (app, views):
        async with asyncio.timeout(20), aclosing(views.tried("stay", {})) as found:
            async for event, data in found:
                if event == "call" and data.stage == "running":
                    break
        (row,) = (await views.proofs.runs()).runs

        assert house.code.left == [True]
        assert (row.calls, row.failed, row.state) == (1, 1, "done")
        assert not app.executor.holds(row.run)
        assert house.asking.questions == ()


async def test_whoever_leaves_takes_the_question_along(house: House) -> None:
    async with house.open() as (_, views):
        async with asyncio.timeout(20), aclosing(views.tried("note", {"text": "beer"})) as found:
            async for event, _ in found:
                if event == "question":
                    assert len(house.asking.questions) == 1
                    break
        assert house.asking.questions == ()
        assert house.code.notes == []


async def test_a_tool_that_is_not_there_cannot_be_tried(house: House) -> None:
    async with house.open() as (_, views):
        with pytest.raises(UsageError):
            views.tried("nothing", {})
