"""Tools in the sandbox on the command line: where they run, what comes of a call, what is said where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from handrail.sandbox.jail import unavailable
from tests.approved import approve
from tests.cli.journal_fixtures import lines, run

BOX = """
[ensemble]
name = "box"

[[invokers]]
name = "shout"
python = "loud_tools:shout"
isolation = "sandbox"

[invokers.sandbox]
read = ["words.txt"]
cpu_seconds = 5
"""
LOUD = """
from pathlib import Path

def shout(path: str) -> str:
    return Path(path).read_text().upper()
"""
NONE = "import sys; from handrail.cli.root import root; root(sys.argv[1:])"

needs_sandbox = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


@pytest.fixture(autouse=True)
def box(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (folder / "box.toml").write_text(BOX)
    (folder / "loud_tools.py").write_text(LOUD)
    (folder / "words.txt").write_text("quiet")
    (folder / "handrail.toml").write_text('ensembles = ["box.toml"]\n')
    approve(folder / "handrail.toml")
    monkeypatch.delitem(sys.modules, "loud_tools", raising=False)
    return folder


@needs_sandbox
def test_a_tool_of_a_file_runs_in_the_sandbox_and_reads_what_the_file_names(box: Path) -> None:
    named = run("tools", "call", "shout", '{"path": "words.txt"}')
    other = run("tools", "call", "shout", '{"path": "handrail.toml"}')

    assert (named.exit_code, named.stdout) == (0, "QUIET\n")
    assert (other.exit_code, "FileNotFoundError" in other.stderr) == (1, True)


def test_a_tool_is_shown_as_running_in_the_sandbox(box: Path) -> None:
    assert "in the sandbox" in run("tools", "show", "shout").stdout


@needs_sandbox
def test_the_check_says_when_something_named_is_not_there(box: Path) -> None:
    assert run("tools", "check").exit_code == 0
    (box / "words.txt").unlink()
    for files in ((), ("box.toml",)):
        checked = run("tools", "check", *files)
        assert (checked.exit_code, "which is not there" in checked.stdout) == (1, True)


@needs_sandbox
def test_the_doctor_says_that_there_is_a_sandbox(box: Path) -> None:
    assert {each["what"]: each["state"] for each in lines(run("doctor", "--json"))}["sandbox"] == "ok"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("tools", "check"), 1, "bubblewrap was not found"),
        (("doctor",), 1, "warn  sandbox: there is none: bubblewrap was not found"),
        (("tools", "call", "shout", '{"path": "words.txt"}'), 1, "apt install bubblewrap"),
    ],
)
def test_on_a_machine_without_bubblewrap_every_door_says_so_and_nothing_runs(
    box: Path, arguments: tuple[str, ...], code: int, told: str
) -> None:
    env = {**os.environ, "PATH": str(box), "COLUMNS": "400"}
    done = subprocess.run(
        [sys.executable, "-c", NONE, *arguments], cwd=box, env=env, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, told in done.stdout + done.stderr) == (code, True)
    assert "QUIET" not in done.stdout
