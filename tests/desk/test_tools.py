"""The tools as people look at them; the numbers are those of `handrail proof stats`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail.core.context import Context
from handrail.core.errors import UsageError
from handrail.desk.views.values import ToolRow
from tests.desk.views_folder import ViewsFolder, call


@pytest.fixture
def house(tmp_path: Path) -> Iterator[ViewsFolder]:
    yield ViewsFolder(tmp_path)
    sys.modules.pop("looked_at", None)  # another test has its own


def named(rows: tuple[ToolRow, ...], name: str) -> ToolRow:
    return next(row for row in rows if row.name == name)


def stats(house: ViewsFolder) -> dict[str, dict[str, Any]]:
    """What the command says of the same journal."""
    words = [sys.executable, "-m", "handrail", "proof", "stats", "--journal", str(house.journal), "--json"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ).stdout.splitlines()
    return {line["tool"]: line for line in map(json.loads, lines) if "tool" in line}


async def test_every_tool_is_listed_with_its_source_and_its_effects(house: ViewsFolder) -> None:
    async with house.open() as (_, views):
        rows = await views.tools.rows()

    note, add = named(rows, "desk:note"), named(rows, "desk:add")
    assert (note.effects, note.side_effects, note.ensemble, note.source) == ("writes", True, "desk", "desk.toml")
    assert (add.effects, add.side_effects, add.summary) == ("reads", False, "Add two numbers.")
    assert "read_output" not in [row.name for row in rows]
    assert [row.name for row in rows] == sorted(row.name for row in rows)


async def test_the_page_of_a_tool_has_what_a_model_is_told_and_the_rules_that_fit_it(house: ViewsFolder) -> None:
    async with house.open() as (app, views):
        digest = app.tools.find("note").digest
        house.approvals.add_rule(house.file, f"allow desk:note@{digest} text=milk")
        house.approvals.add_rule(house.file, f"allow desk:note@sha256:{'0' * 64} text=beer")
        note, door = await views.tools.page("desk:note"), await views.tools.page("open")

    assert note.rules == ("allow desk:note text=tea", f"allow desk:note@{digest} text=milk")
    assert note.definition == digest
    assert note.input_schema["required"] == ["text"]
    assert note.limits["timeout"] == 30.0 and note.limits["isolation"] == "thread"
    assert door.secrets == ("code",)
    assert door.rules == ()


async def test_only_of_a_tool_whose_answers_may_serve_again_it_is_said_that_they_are_remembered(
    house: ViewsFolder,
) -> None:
    with (house.folder / "looked_at.py").open("a") as code, (house.folder / "desk.toml").open("a") as tools:
        code.write("\nfrom handrail import tool\n")
        for name, replays in (("look", False), ("plan", True)):
            code.write(f"\n@tool(replays={replays}, deduplicator='exact')\ndef {name}() -> str:\n    return ''\n")
            tools.write(f'\n[[invokers]]\nname = "{name}"\npython = "looked_at:{name}"\n')
    async with house.open() as (_, views):
        look, plan = await views.tools.page("desk:look"), await views.tools.page("desk:plan")

    assert look.limits["cacheable"] is True
    assert "cacheable" not in plan.limits


async def test_a_tool_that_is_not_there_is_refused_with_near_names(house: ViewsFolder) -> None:
    async with house.open() as (_, views):
        with pytest.raises(UsageError, match="ad"):
            await views.tools.page("ad")


async def test_the_numbers_are_those_of_proof_stats_and_follow_the_record(house: ViewsFolder) -> None:
    async with house.open() as (app, views):
        await app.executor.runs.record_offer(Context(run="run_1"), ("add", "fail", "note"))
        for number in range(3):
            await call(app, "run_1", "add", a=number, b=1)
        before = await views.tools.rows()
        await call(app, "run_1", "fail")
        await call(app, "run_2", "desk:add", a="x", b=1)
        await app.executor.finish("run_1")
        rows, page = await views.tools.rows(), await views.tools.page("add")
        said = stats(house)

    assert named(before, "desk:add").picked == 3
    for name in ("desk:add", "desk:fail", "desk:note"):
        row, line = named(rows, name), said[name]
        assert (row.offered, row.picked, row.failed) == (line["offered"], line["picked"], sum(line["failed"].values()))
        assert (row.p50_us, row.p95_us) == (line["p50_us"], line["p95_us"])
    assert (named(rows, "desk:add").offered, named(rows, "desk:add").picked) == (1, 4)
    assert page.outcomes == {"ok": 3, "invalid_arguments": 1}
    assert [took > 0 for took in named(rows, "desk:add").recent] == [True] * 3
    assert [took < 0 for took in named(rows, "desk:fail").recent] == [True]


async def test_only_the_last_ten_thousand_entries_count_as_in_proof_stats(
    house: ViewsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handrail.desk.views.journal_index.RING", 6)
    async with house.open() as (app, views):
        for number in range(4):
            await call(app, "run_1", "add", a=number, b=1)
        await views.tools.rows()
        await call(app, "run_1", "add", a=9, b=1)

        # The last six entries are three calls, each with an intent and an answer.
        assert named(await views.tools.rows(), "desk:add").picked == 3
        assert len(named(await views.tools.rows(), "desk:add").recent) == 3
