"""A stranger's first hour, as far as a program can play it: a copy of the sources, a new environment and an empty home;
the lines of README.md as they stand, the hints that handrail prints, and the tutorial as it is typed.

The hour as a person played it is kept in docs/first-hour.md.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.docs.console_runner import Terminal
from tests.docs.pages import ROOT, Page, read_page

PATIENCE = 900
"""Seconds that one line may take on a busy machine with a slow registry."""
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "src", "packages")
README = read_page(ROOT / "README.md")
TUTORIAL = read_page(ROOT / "docs" / "tutorial.md")
_HINT = re.compile(r"needs an extra that is not installed; run: (?P<line>.+)")
_KNOWN = ("PYTHON", "VIRTUAL_ENV", "HANDRAIL", "COVERAGE")
"""Beginnings of variables that say where the tests run; a stranger has none of them."""


class Stranger:
    """Somebody at a shell, with an activated environment that has nothing in it yet."""

    def __init__(self, folder: Path) -> None:
        self.sources = folder / "handrail"
        self.sources.mkdir()
        for name in SOURCES:
            _copy(ROOT / name, self.sources / name)
        self._venv = folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", str(self._venv)], check=True, timeout=PATIENCE)
        (folder / "home").mkdir()
        self.environment = self._environment(folder / "home")

    def _environment(self, home: Path) -> Mapping[str, str]:
        """An own home; what was fetched before need not be fetched again, and the same registries are asked."""
        own = Path.home()
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(_KNOWN)},
            "HOME": str(home),
            "PIP_NO_COMPILE": "0",  # it does not compile, as most of that is not imported here; pip wants a 0 to say so
            "PATH": f"{self._venv / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "VIRTUAL_ENV": str(self._venv),
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(own / ".cache"),
            "XDG_CONFIG_HOME": os.environ.get("XDG_CONFIG_HOME") or str(own / ".config"),
            "XDG_STATE_HOME": str(home / "state"),
        }

    def type(self, text: str, *, fails: bool = False, at: Path | None = None) -> str:
        """What is printed when this is typed, in the folder with the sources or elsewhere."""
        done = subprocess.run(
            ["bash", "-e", "-c", text],
            cwd=at or self.sources,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        assert (done.returncode != 0) == fails, f"`{text}` ended with code {done.returncode}:\n{done.stdout}"
        return done.stdout

    def hint(self, command: str, *, at: Path) -> str:
        """The line that a command prints because an extra is missing."""
        said = self.type(command, fails=True, at=at)
        found = _HINT.search(said)
        assert found is not None, said
        return found["line"]


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist"))
    else:
        shutil.copy(source, target)


@pytest.fixture
def stranger(tmp_path: Path) -> Stranger:
    stranger = Stranger(tmp_path)
    asked = ["pip", "download", "--quiet", "--no-deps", "--retries", "0", "--timeout", "20", "idna"]
    answer = subprocess.run(asked, env=dict(stranger.environment), capture_output=True, text=True, cwd=tmp_path)
    if answer.returncode:
        pytest.skip(f"no registry of packages answers: {answer.stderr[-300:]}")
    return stranger


def install_lines(page: Page) -> list[str]:
    """The lines of a page that install something, as they are typed."""
    blocks = [block.text for block in page.blocks if block.language == "sh"]
    return [line.partition("#")[0].strip() for text in blocks for line in text.splitlines() if "pip install" in line]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_lines_of_the_readme_the_hints_and_the_tutorial_work_in_a_new_environment(
    stranger: Stranger, tmp_path: Path
) -> None:
    library, command_line, everything = install_lines(README)
    stranger.type(library)
    assert stranger.type("python -c 'from handrail import Session, create_llm, tool'", at=tmp_path) == ""

    stranger.type(stranger.hint("handrail --help", at=tmp_path), at=tmp_path)
    assert "Usage: handrail" in stranger.type("handrail --help", at=tmp_path)
    hint = stranger.hint("handrail ask --model local hello", at=tmp_path)
    assert hint == f"cd {stranger.sources} && pip install './packages/handrail-local' '.[local]'"
    stranger.type(command_line)  # the same, with the extra that is there
    assert "the model is there" in stranger.type("handrail local setup", at=tmp_path)
    assert everything.replace("[all]", "[cli,local]") == command_line  # a minute more, and `make test` has installed it

    for folder in play(TUTORIAL, stranger):
        assert (folder / ".handrail" / "journal.db").exists()


def play(page: Page, stranger: Stranger) -> Iterator[Path]:
    """Type a page: install, save its files, type its consoles. It gives the folder in which that was done."""
    install, *_ = (block.text for block in page.blocks if block.language == "sh")
    folder = Path(stranger.type(f"{install}\npwd").splitlines()[-1])
    terminal = Terminal(page, folder, stranger.environment)
    try:
        for block in page.blocks:
            if block.file is not None:
                (folder / block.file).write_text(terminal.here(block.text), encoding="utf-8")
            elif block.language == "console":
                terminal.type(block)
        yield folder
    finally:
        terminal.close()
