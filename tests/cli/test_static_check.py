"""`handrail tools check` finds mistakes in Python by its text: nothing of it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.journal_fixtures import lines, run

HEAD = '[ensemble]\nname = "box"\n[[invokers]]\nname = "work"\n'


def checked(folder: Path, python: str, reference: str = "static_tools:work", more: str = "") -> dict[str, Any]:
    """What is said of a tool whose module has this text."""
    (folder / "static_tools.py").write_text(f"open('ran', 'w')\n{python}\n")
    (folder / "box.toml").write_text(f'{HEAD}python = "{reference}"\n{more}')
    (found,) = lines(run("tools", "check", "--json", "box.toml"))
    assert not (folder / "ran").exists()
    return dict(found)


@pytest.mark.parametrize(
    "python",
    [
        "def work(a: int) -> int: ...",
        "async def work(a: int) -> int: ...",
        "class work: ...",
        "work = make()",
        "from elsewhere import work",
        "import work",
        "try:\n    from fast import work\nexcept ImportError:\n    work = None",
        "if True:\n    def work(): ...",
        "from everything import *",
        "def __getattr__(name): ...",
        "globals()['work'] = 1",
        "for work in (1, 2): ...",
    ],
)
def test_a_function_that_the_text_may_define_is_good(folder: Path, python: str) -> None:
    assert checked(folder, python)["problem"] is None


@pytest.mark.parametrize(
    ("python", "reference", "told"),
    [
        ("def wrok(): ...", "static_tools:work", "'static_tools' has no 'work'"),
        ("def outer():\n    def work(): ...", "static_tools:work", "'static_tools' has no 'work'"),
        ("def work(:", "static_tools:work", "cannot import 'static_tools'"),
        ("", "nothing_of_that_name:work", "there is no such module"),
        ("", "static_tools.inner:work", "there is no such module"),
        ("", "static_tools", "must be 'module:function'"),
    ],
)
def test_one_that_is_not_there_is_told_with_its_place(folder: Path, python: str, reference: str, told: str) -> None:
    found = checked(folder, python, reference)

    assert told in found["problem"]
    assert (found["line"], found["key"]) == (5, "invokers[0].python")


def test_what_the_file_says_of_a_function_is_held_to_the_arguments_in_its_text(folder: Path) -> None:
    python = "def work(path: str, *, mode: str = 'r'): ..."

    good = [checked(folder, python, more=f'resource = "{name}"\n')["problem"] for name in ("path", "mode")]
    bad = checked(folder, python, more='resource = "pth"\n')["problem"]

    assert good == [None, None]
    assert "'pth' is not an argument; the arguments are path, mode" in bad


def test_a_package_and_an_installed_module_are_found(folder: Path) -> None:
    (folder / "pack").mkdir()
    (folder / "pack" / "__init__.py").write_text("open('ran', 'w')\n")
    (folder / "pack" / "inner.py").write_text("open('ran', 'w')\ndef work(): ...\n")

    for reference in ("pack.inner:work", "textwrap:dedent", "msgspec.json:decode"):
        assert checked(folder, "", reference)["problem"] is None


def test_a_python_file_is_counted_by_its_decorators_and_not_run(folder: Path) -> None:
    (folder / "many.py").write_text(
        "import handrail\nfrom handrail import tool\nopen('ran', 'w')\n"
        "@tool\ndef a(): ...\n@tool(side_effects=True)\nasync def b(): ...\n"
        "@handrail.tool\ndef c(): ...\ndef d(): ...\n"
    )

    (found,) = lines(run("tools", "check", "--json", "many.py"))

    assert (found["ok"], found["tools"]) == (True, 3)
    assert not (folder / "ran").exists()
