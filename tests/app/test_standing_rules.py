"""Standing rules of the person: they decide at once in an app that runs, after the rules of the configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail.app.app import App, AppAdditions
from handrail.config.approvals import Approvals
from tests.app.app_folder import AppFolder, call

TOOLS = '''
from handrail import tool

@tool(side_effects=True)
def note(text: str) -> str:
    """Write a note."""
    return "noted"
'''


@pytest.fixture
def wanted(place: AppFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppAdditions]:
    monkeypatch.chdir(place.folder)
    monkeypatch.syspath_prepend(place.folder)  # so that what an app adds to the path is taken off again
    (place.folder / "standing_tools.py").write_text(TOOLS, encoding="utf-8")
    yield AppAdditions(tools=("standing_tools.py",))
    sys.modules.pop("standing_tools", None)


def rule_of(app: App) -> str:
    return f"allow note@{app.tools.find('note').digest} text=good*"


def other(place: AppFolder) -> Approvals:
    """The same file as another process has it."""
    return Approvals(place.approvals.path.parent)


async def test_a_rule_that_is_set_elsewhere_holds_from_the_next_question_on(
    place: AppFolder, wanted: AppAdditions
) -> None:
    async with place.app("", wanted) as app:
        before = await call(app, "note", text="good")
        other(place).add_rule(app.config.file, rule_of(app))
        covered, beyond = await call(app, "note", text="good"), await call(app, "note", text="bad")
        shown = tuple(map(str, app.standing.now()))
        other(place).remove_rule(app.config.file, rule_of(app))
        after = await call(app, "note", text="good again")

    assert (before.outcome, covered.content, beyond.outcome) == ("needs_confirmation", "noted", "needs_confirmation")
    assert shown == (rule_of(app),)
    assert after.outcome == "needs_confirmation"


async def test_what_the_configuration_denies_no_standing_rule_allows(place: AppFolder, wanted: AppAdditions) -> None:
    async with place.app('rules = ["deny note text=good"]', wanted) as app:
        place.approvals.add_rule(app.config.file, rule_of(app))
        denied, covered = await call(app, "note", text="good"), await call(app, "note", text="good too")

    assert (denied.outcome, covered.outcome) == ("denied", "ok")


async def test_a_rule_is_for_the_tool_as_it_was_defined(place: AppFolder, wanted: AppAdditions) -> None:
    async with place.app("", wanted) as app:
        place.approvals.add_rule(app.config.file, f"allow note@sha256:{'0' * 64}")
        changed = await call(app, "note", text="good")
        place.approvals.add_rule(app.config.file, rule_of(app))
        renewed = await call(app, "note", text="good")

    assert (changed.outcome, renewed.outcome) == ("needs_confirmation", "ok")


async def test_a_rule_of_another_project_does_not_hold_here(place: AppFolder, wanted: AppAdditions) -> None:
    async with place.app("", wanted) as app:
        place.approvals.add_rule(Path(place.folder / "elsewhere" / "handrail.toml"), rule_of(app))

        assert (await call(app, "note", text="good")).outcome == "needs_confirmation"
