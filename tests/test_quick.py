"""`make quick`: which tests it runs for a change."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.polling import blocking_until

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "quick.py"
PROJECT = """
[tool.ruff]
line-length = 120

[tool.ruff.lint]
select = ["F"]

[tool.pytest.ini_options]
pythonpath = ["src", "."]
markers = ["slow"]
"""
FILES = {
    "pyproject.toml": PROJECT,
    "src/handrail/__init__.py": "",
    "src/handrail/core/__init__.py": "",
    "src/handrail/core/deep.py": "X = 1\n",
    "src/handrail/run/__init__.py": "",
    "src/handrail/run/runner.py": "from handrail.core.deep import X\n\nY = X\n",
    "src/handrail/desk/page/chat.js": "let x\n",
    "docs/page.md": "# A page\n",
    "scripts/other.py": "",
    "tests/__init__.py": "",
    "tests/helper.py": "",
    "tests/core/__init__.py": "",
    "tests/core/test_deep.py": "from handrail.core.deep import X\n\n\ndef test_it() -> None:\n    assert X == 1\n",
    "tests/core/test_other.py": "",
    "tests/run/__init__.py": "",
    "tests/run/conftest.py": "",
    "tests/run/test_runner.py": "from handrail.run.runner import Y\nfrom tests import helper\n\n_ = helper, Y\n",
    "tests/run/test_both.py": "from handrail.core import deep\n\n_ = deep\n",
    "tests/desk/__init__.py": "",
    "tests/desk/page/__init__.py": "",
    "tests/desk/page/test_chat.py": "",
    "tests/docs/__init__.py": "",
    "tests/docs/test_links.py": "",
    "tests/test_scripts.py": 'NAME = "other.py"\n',
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copy(SCRIPT, tmp_path / "scripts")
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path)
    git(tmp_path, "checkout", "-q", "-b", "work")
    return tmp_path


def git(project: Path, *arguments: str) -> None:
    ada = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", *ada, *arguments], cwd=project, check=True)


def commit(project: Path) -> None:
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "All of it")


def quick(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "scripts/quick.py", *options], cwd=project, capture_output=True, text=True, timeout=250
    )


def near(project: Path) -> list[list[str]]:
    """The files of tests that would run, in their three ranks."""
    done = quick(project, "--list")
    assert done.returncode == 0, done.stderr
    ranks = [line.partition(": ")[2].split() for line in done.stdout.splitlines()]
    return [[] if rank == ["none"] else [name.removeprefix("tests/") for name in rank] for rank in ranks]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("src/handrail/core/deep.py", [[], ["core/test_deep.py"], ["run/test_both.py"]]),
        ("src/handrail/run/runner.py", [[], ["run/test_runner.py"], []]),
        ("tests/core/test_other.py", [["core/test_other.py"], [], []]),
        ("tests/helper.py", [[], ["run/test_runner.py"], []]),
        ("tests/run/conftest.py", [[], ["run/test_both.py", "run/test_runner.py"], []]),
        ("src/handrail/desk/page/chat.js", [[], ["desk/page/test_chat.py"], []]),
        ("docs/page.md", [[], ["docs/test_links.py"], []]),
        ("scripts/other.py", [[], [], ["test_scripts.py"]]),
    ],
)
def test_the_tests_near_a_change_are_chosen(project: Path, changed: str, expected: list[list[str]]) -> None:
    path = project / changed
    path.write_text(f"{path.read_text()}\n")

    assert near(project) == expected

    commit(project)
    assert near(project) == expected


def test_a_new_test_counts_and_what_did_not_change_does_not(project: Path) -> None:
    assert near(project) == [[], [], []]

    (project / "tests" / "core" / "test_new.py").write_text("")

    assert near(project) == [["core/test_new.py"], [], []]


def test_what_fails_near_the_change_fails_the_whole(project: Path) -> None:
    changed = project / "src" / "handrail" / "core" / "deep.py"

    changed.write_text("X = 2\n")
    failed = quick(project)
    changed.write_text("X = 1  # as before\n")
    passed = quick(project)

    assert (failed.returncode != 0, passed.returncode) == (True, 0), failed.stdout + passed.stdout
    assert "1 failed" in failed.stdout
    assert "1 passed" in passed.stdout


def test_a_mistake_that_ruff_finds_fails_before_any_test(project: Path) -> None:
    (project / "src" / "handrail" / "core" / "deep.py").write_text("import os\n")

    done = quick(project)

    assert (done.returncode, "F401" in done.stdout, "passed" in done.stdout) == (1, True, False)


def test_when_the_time_is_over_it_says_what_has_not_run(project: Path) -> None:
    forever = "import threading\n\n\ndef test_it() -> None:\n    threading.Event().wait()\n"
    (project / "tests" / "core" / "test_other.py").write_text(forever)
    (project / "src" / "handrail" / "run" / "runner.py").write_text("Y = 1\n")

    done = quick(project, "--seconds", "3")

    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        0,
        "the time is over: not all of these have run, and none of 1 further files",
    )
    assert blocking_until(lambda: not working_in(project)), "it left processes behind"


def working_in(folder: Path) -> list[str]:
    """The processes whose working folder this is, where the system tells."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if (process / "cwd").readlink() == folder:
                found.append(process.name)
    return found
