"""Every claim of docs/command-line.md about commands and their help."""

from __future__ import annotations

import re

import click
import pytest

from tests.cli.journal_fixtures import Journal, run
from tests.cli.pages import PAGE, commands, current, help_of

COMMANDS = dict(commands())
LEAVES = {name: command for name, command in COMMANDS.items() if not isinstance(command, click.Group)}


def test_the_help_on_the_page_is_what_the_commands_print() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert page == current(page), "run: python -m tests.cli.pages"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_teaches_by_example(name: str) -> None:
    examples = help_of(name).partition("Examples:")[2].strip().splitlines()

    assert 1 <= len(examples) <= 4
    assert all(example.strip().startswith("handrail ") for example in examples)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_names_commands_and_options_that_there_are(name: str) -> None:
    for example in help_of(name).partition("Examples:")[2].strip().splitlines():
        words = example.split("|")[0].split(">")[0].split(" -- ")[0].split()
        called = next(each for each in sorted(COMMANDS, key=len, reverse=True) if _calls(words, each))
        options = {option for parameter in COMMANDS[called].params for option in parameter.opts} | {"--journal"}
        assert [word for word in words if word.startswith("-") and word not in options] == []


def _calls(words: list[str], name: str) -> bool:
    return [word for word in words if word in name.split()][: len(name.split())] == name.split()


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_answers_in_json_in_utc_and_of_any_journal(name: str) -> None:
    options = {option for parameter in LEAVES[name].params for option in parameter.opts}

    assert {"--json", "--utc", "--journal"} <= options


def test_the_first_look_is_what_one_sees(journal: Journal) -> None:
    shown = run("proof", "list", "--utc").stdout

    assert shown in PAGE.read_text(encoding="utf-8")


def test_the_question_is_what_one_sees(journal: Journal) -> None:
    page = PAGE.read_text(encoding="utf-8")

    asked = run("confirm", "allow", "confirm_1", "--by", "ada", "--utc")

    assert asked.stderr in page
    assert asked.stdout in page


def test_the_page_lists_the_exit_codes() -> None:
    assert re.findall(r"^\| (\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE) == ["0", "1", "2", "130", "141"]
