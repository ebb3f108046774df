"""The top of the command line: what it says of its commands, and the options that hold for all of them."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from handrail.cli.root import root
from tests.approved import approve
from tests.cli.journal_fixtures import run
from tests.cli.pages import commands
from tests.cli.terminal_fixtures import CONFIG, WITH, configure


def test_the_line_for_each_command_is_the_first_sentence_of_its_own_help() -> None:
    first = {name.split()[1]: _first(each) for name, each in commands() if len(name.split()) == 2}

    assert {name: says for name, (_, says) in root.table.items()} == first


@pytest.mark.parametrize("group", sorted(name for name, each in commands() if isinstance(each, click.Group)))
def test_what_a_group_says_of_its_commands_fits_80_columns_and_is_not_cut(group: str) -> None:
    shown = run(*group.split()[1:], "--help", env={"COLUMNS": "80"}).stdout

    told = shown.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert told
    assert [line for line in told if line.endswith("...") or len(line) > 80] == []


def test_a_command_that_is_misspelt_is_answered_with_the_one_that_is_near() -> None:
    for words, near in ((("tool", "list"), "tools"), (("proof", "lst"), "list"), (("local", "stat"), "status")):
        result = run(*words)
        assert (result.exit_code, f"Did you mean '{near}'?" in result.stderr) == (2, True)
    assert "Did you mean" not in run("xyzzy").stderr


def _first(command: click.Command) -> str:
    return " ".join((command.help or "").partition("\n\n")[0].split())


def test_the_journal_of_the_configuration_is_written_to_and_looked_at(folder: Path) -> None:
    configure(folder, f'{CONFIG}[proof]\njournal = "record/all.db"\n')

    run("ask", "the sum?")

    assert (folder / "record" / "all.db").exists()
    assert run("proof", "list").stdout.count("run_") == 1
    assert not (folder / ".handrail").exists()


def test_a_configuration_can_be_named_before_or_after_the_command(folder: Path) -> None:
    approve(configure(folder).rename(folder / "other.toml"))

    for arguments in (("--config", "other.toml", "ask"), ("ask", "--config", "other.toml")):
        assert run(*arguments, "the sum?").stdout == "Let me see.\nIt is 3.\n"
    assert run("ask", "the sum?", env={"HANDRAIL_CONFIG": "other.toml"}).exit_code == 0


def test_a_journal_that_is_named_is_made_where_there_is_none(folder: Path) -> None:
    result = run("ask", *WITH, "--journal", "new/one.db", "the sum?")

    assert (result.exit_code, (folder / "new" / "one.db").exists()) == (0, True)
    assert "--journal new/one.db" in run("ask", *WITH, "--journal", "new/one.db", "pay").stderr
