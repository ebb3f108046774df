"""A model that steps in, by every door: a file, the command line; and what the record shows of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from handrail.app import open_model
from handrail.config.load import load_config
from handrail.core.errors import ConfigError
from tests.cli.journal_fixtures import lines, run

DOWN = '[[reply]]\nerror = "model_unavailable"\ntext = "nobody is there"\n'
UP = '[[reply]]\ntext = "Here I am."\n'
MODELS = """
default_model = "first"

[models.first]
provider = "scripted"
model = "down.toml"
fallback = {fallback}

[models.spare]
provider = "scripted"
model = "up.toml"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HANDRAIL_CONFIG", raising=False)
    monkeypatch.delenv("HANDRAIL_JOURNAL", raising=False)
    (tmp_path / "down.toml").write_text('name = "first"\n' + DOWN)
    (tmp_path / "up.toml").write_text('name = "spare"\n' + UP)
    return tmp_path


def test_the_command_line_names_who_steps_in(folder: Path) -> None:
    result = run("ask", "-m", "scripted:down.toml", "--fallback", "scripted:up.toml", "hello?")

    assert (result.exit_code, result.stdout) == (0, "Here I am.\n")
    assert "! 'first' gave no reply: nobody is there; going on with 'spare'" in result.stderr


def test_without_one_the_command_fails_and_says_how_to_take_it_up(folder: Path) -> None:
    (folder / "also.toml").write_text('name = "second"\n' + DOWN)

    result = run("ask", "-m", "scripted:down.toml", "--fallback", "scripted:also.toml", "hello?")

    assert result.exit_code == 1
    assert "-m scripted:down.toml --fallback scripted:also.toml" in result.stderr


def test_the_configuration_names_who_steps_in(folder: Path) -> None:
    (folder / "handrail.toml").write_text(MODELS.format(fallback='["spare"]'))

    result = run("ask", "hello?")

    assert (result.exit_code, result.stdout) == (0, "Here I am.\n")
    assert open_model(load_config(folder / "handrail.toml")).name == "first or spare"


def test_a_fallback_that_is_no_model_is_refused_with_its_place(folder: Path) -> None:
    (folder / "handrail.toml").write_text(MODELS.format(fallback='["spare", "spar"]'))

    with pytest.raises(ConfigError, match=r"models\.first\.fallback.*there is no \[models\.spar\]"):
        load_config(folder / "handrail.toml")


def test_the_record_shows_and_counts_every_attempt(folder: Path) -> None:
    run("ask", "-m", "scripted:down.toml", "--fallback", "scripted:up.toml", "hello?")
    (listed,) = lines(run("proof", "list", "--json"))

    shown = run("proof", "show", listed["run"])
    (entry,) = (each for each in lines(run("proof", "show", listed["run"], "--json")) if each["type"] == "reply.failed")
    counted = {each["model"]: each for each in lines(run("proof", "stats", "--json")) if "model" in each}

    assert "1 attempt at a reply failed:" in shown.stdout
    assert "first, attempt 1: model_unavailable, again after 0 µs: nobody is there" in shown.stdout
    assert (entry["model"], entry["attempt"], entry["error"]) == ("first", 1, "model_unavailable")
    assert counted["first"]["failed"] == {"model_unavailable": 1}
    assert counted["spare"]["replies"] == 1
    assert "model_unavailable 1" in run("proof", "stats").stdout
    assert run("proof", "verify").exit_code == 0


def test_a_bundle_with_a_failed_attempt_verifies_and_its_words_can_be_erased(folder: Path) -> None:
    run("ask", "-m", "scripted:down.toml", "--fallback", "scripted:up.toml", "hello?")
    (listed,) = lines(run("proof", "list", "--json"))

    assert run("proof", "export", listed["run"], "bundle").exit_code == 0
    script = [sys.executable, "bundle/verify.py", "bundle"]
    assert subprocess.run(script, check=False, capture_output=True).returncode == 0
    assert run("proof", "erase", listed["run"], "--yes").exit_code == 0
    assert "model_unavailable, again after 0 µs: [erased]" in run("proof", "show", listed["run"]).stdout


def test_a_script_may_fail_only_in_ways_that_there_are(folder: Path) -> None:
    (folder / "odd.toml").write_text('[[reply]]\nerror = "tired"\n')

    result = run("ask", "-m", "scripted:odd.toml", "hello?")

    assert (result.exit_code, "is not a script of replies" in result.stderr) == (1, True)
