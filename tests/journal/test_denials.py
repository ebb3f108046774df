"""An audit reports side effects that ran after a denial. The entries themselves may be intact."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from handrail.cli.root import root
from handrail.core.confirmation import ConfirmationSubject
from handrail.core.events import CallIntended, ConfirmationAnswered, ConfirmationRequested, Recorded
from handrail.journal.auditing import audit, export_run
from handrail.journal.journal import SqliteJournal

ASKED = ConfirmationRequested(
    run="run_1",
    at=1,
    request="confirm_1",
    call_id="call_1",
    tool="pay",
    binds="b",
    asked=ConfirmationSubject({"amount": 5}, "n"),
)
BEGUN = CallIntended(
    run="run_1", at=9, call_id="call_1", tool="pay", side_effects=True, idempotent=False, key="k", grant="confirm_1"
)


def said(decision: str, by: str) -> ConfirmationAnswered:
    return ASKED.answered("allow" if decision == "allow" else "deny", at=2, by=by)


async def written(folder: Path, *events: Recorded) -> Path:
    async with await SqliteJournal.open(folder / "journal.db") as journal:
        for event in events:
            await journal.append(event)
    return folder / "journal.db"


async def test_an_effect_that_ran_after_a_denial_is_reported_with_who_denied_it(tmp_path: Path) -> None:
    path = await written(tmp_path, ASKED, said("deny", "grace"), said("allow", "ada"), BEGUN)

    report = audit(path)

    assert (report.ok, report.problems) == (False, ())
    (violation,) = report.violations
    assert violation.index == 3
    assert "'grace'" in violation.why
    assert "'call_1'" in violation.why


async def test_the_command_line_names_the_effect_and_exits_with_1(tmp_path: Path) -> None:
    path = await written(tmp_path, ASKED, said("deny", "grace"), said("allow", "ada"), BEGUN)

    result = CliRunner().invoke(root, ["proof", "verify", "--journal", str(path)])

    assert result.exit_code == 1
    assert "entry 3: the call 'call_1' of 'pay' ran after 'grace' had denied it (confirm_1)" in result.stdout
    assert "INTACT, but 1 side effect ran after a denial" in result.stdout


async def test_an_effect_without_a_grant_after_a_denial_of_the_same_call_is_reported(tmp_path: Path) -> None:
    begun = CallIntended(run="run_1", at=9, call_id="call_1", tool="pay", side_effects=True, idempotent=False, key="k")
    path = await written(tmp_path, ASKED, said("deny", "grace"), begun)

    assert len(audit(path).violations) == 1


@pytest.mark.parametrize("late", ["deny", "allow"])
async def test_a_denial_that_came_after_the_first_answer_is_no_violation(tmp_path: Path, late: str) -> None:
    path = await written(tmp_path, ASKED, said("allow", "ada"), said(late, "grace"), BEGUN)

    assert audit(path).ok


async def test_a_run_with_a_violation_can_still_be_exported(tmp_path: Path) -> None:
    path = await written(tmp_path, ASKED, said("deny", "grace"), said("allow", "ada"), BEGUN)

    assert (export_run(path, "run_1", tmp_path / "bundle") / "bundle.jsonl").exists()
