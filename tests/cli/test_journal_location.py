"""Which journal a command looks at."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail.cli.journal_location import find_journal
from handrail.core.errors import JournalError
from tests.cli.journal_fixtures import Journal, lines, run


def test_the_journal_is_found_from_a_folder_below(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    below = journal.path.parent.parent / "src" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)

    assert len(lines(run("proof", "list", "--json"))) == 3


def test_the_nearest_journal_wins(tmp_path: Path) -> None:
    near = tmp_path / "project"
    for folder in (tmp_path, near):
        (folder / ".handrail").mkdir(parents=True)
        (folder / ".handrail" / "journal.db").touch()

    assert find_journal(None, near / "below") == near / ".handrail" / "journal.db"


def test_a_journal_can_be_named_before_or_after_the_command_or_in_the_environment(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    named = str(journal.path)

    assert run("--journal", named, "proof", "list").exit_code == 0
    assert run("proof", "list", "--journal", named).exit_code == 0
    assert run("proof", "list", env={"HANDRAIL_JOURNAL": named}).exit_code == 0
    assert run("proof", "list", "--journal", named, env={"HANDRAIL_JOURNAL": "/nowhere"}).exit_code == 0


def test_without_a_journal_one_line_says_how_to_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    result = run("proof", "list")

    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert "SqliteJournal.open" in result.stderr


def test_a_named_journal_that_is_not_there_is_not_looked_for_elsewhere(journal: Journal) -> None:
    with pytest.raises(JournalError):
        find_journal(Path("other.db"), journal.path.parent.parent)


def test_a_file_that_is_no_journal_is_refused_in_one_line(tmp_path: Path) -> None:
    other = tmp_path / "letter.txt"
    other.write_text("Dear journal," * 100)

    result = run("--journal", str(other), "proof", "list")

    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
