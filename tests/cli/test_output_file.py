"""`-o FILE`: the answer of a command in a file, as a pipe would have it."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from tests.cli.journal_fixtures import Journal, run
from tests.cli.pages import commands
from tests.cli.terminal_fixtures import fill


@pytest.mark.parametrize(
    "words",
    [
        ("proof", "list"),
        ("proof", "list", "--json"),
        ("proof", "show", "run_sums"),
        ("proof", "stats", "--json"),
        ("proof", "verify"),
        ("confirm", "list"),
    ],
    ids=" ".join,
)
def test_the_file_has_what_a_pipe_would_have(words: tuple[str, ...], journal: Journal, tmp_path: Path) -> None:
    file = tmp_path / "answer"
    piped = run(*words, "--utc")

    done = run(*words, "--utc", "-o", str(file))

    assert (done.exit_code, done.stdout) == (piped.exit_code, "")
    assert file.read_text(encoding="utf-8") == piped.stdout != ""


def test_a_command_that_fails_leaves_the_file_as_it_was(journal: Journal, tmp_path: Path) -> None:
    file = tmp_path / "answer"
    file.write_text("before")

    assert run("proof", "show", "run_nobody", "--output", str(file)).exit_code == 1
    assert file.read_text() == "before"


def test_a_file_that_cannot_be_written_is_told(journal: Journal, tmp_path: Path) -> None:
    done = run("proof", "list", "-o", str(tmp_path / "no" / "folder"))

    assert done.exit_code == 1
    assert "cannot be written: No such file or directory" in done.stderr


def test_a_question_can_be_answered_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(fill(tmp_path))

    done = run("ask", "-m", "scripted:script.toml", "--json", "-o", "events.jsonl", "hello")

    assert (done.exit_code, done.stdout) == (0, "")
    last = (tmp_path / "events.jsonl").read_text().splitlines()[-1]
    result = json.loads(last)
    assert (result["type"], result["text"]) == ("result", "Hello!")


def test_every_command_that_lists_or_shows_has_it() -> None:
    leaves = {name: each for name, each in commands() if not isinstance(each, click.Group)}
    words = ("list", "show", "ask", "verify")
    asked = {name: each for name, each in leaves.items() if name.rpartition(" ")[2] in words}
    without = {name for name, each in asked.items() if "-o" not in {word for one in each.params for word in one.opts}}

    assert without == {"handrail rlm ask", "handrail state verify"}
