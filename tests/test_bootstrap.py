"""Making .venv: with which Python, and what is said when that one will not do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
MAKES_NONE = f"""#!/bin/sh
case "$*" in "-m venv"*) echo "no venv here" >&2; exit 1;; esac
exec {sys.executable} "$@"
"""
"""This interpreter without the means to make an environment, so that nothing is fetched."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "bin").mkdir()
    shutil.copy(SCRIPTS / "bootstrap.sh", tmp_path / "scripts")
    for tool in ("bash", "dirname", "rm", "env"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    for file in ("pyproject.toml", "constraints.txt"):
        (tmp_path / file).touch()
    return tmp_path


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def bootstrap(project: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHON"}
    environment = {**kept, "PATH": str(project / "bin"), **environment}
    command = [str(project / "scripts" / "bootstrap.sh"), "dev"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_a_python_that_is_not_there_or_too_old_is_refused_with_a_sentence(project: Path) -> None:
    old = program(project / "old", "#!/bin/sh\nexit 1\n")

    for python, why in (("no-such-python", "there is no such program"), (str(old), "is not Python 3.11 or newer")):
        done = bootstrap(project, PYTHON=python)
        assert (done.returncode, done.stdout) == (1, "")
        assert why in done.stderr


def test_without_any_python_that_is_new_enough_it_says_what_to_do(project: Path) -> None:
    program(project / "bin" / "python3", "#!/bin/sh\nexit 1\n")

    done = bootstrap(project)

    assert done.returncode == 1
    assert "handrail needs Python 3.11 or newer; set PYTHON=" in done.stderr


def test_the_first_python_on_the_path_that_is_new_enough_is_taken(project: Path) -> None:
    program(project / "bin" / "python3", "#!/bin/sh\nexit 1\n")
    newer = program(project / "bin" / "python3.13", MAKES_NONE)

    done = bootstrap(project)

    assert f"· making .venv with Python {sys.version.split()[0]} ({newer})" in done.stdout
    assert "no venv here" in done.stderr
    assert "could not make .venv; on Debian run: apt-get install python3-venv" in done.stderr


def test_an_environment_of_another_python_than_the_one_asked_for_is_made_again(project: Path) -> None:
    program(project / ".venv" / "bin" / "python", "#!/bin/sh\necho 3.11.0 /elsewhere\n")
    (project / ".venv" / ".dev").touch()
    asked = program(project / "asked", MAKES_NONE)

    done = bootstrap(project, PYTHON=str(asked))

    assert f".venv was made by another Python; making it again with Python {sys.version.split()[0]}" in done.stdout
    assert not (project / ".venv").exists()


def test_where_nothing_changed_nothing_is_done(project: Path) -> None:
    program(project / ".venv" / "bin" / "python", MAKES_NONE)
    (project / ".venv" / ".dev").touch()
    asked = program(project / "asked", MAKES_NONE)

    for environment in ({}, {"PYTHON": str(asked)}):
        done = bootstrap(project, **environment)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
