"""`py.typed` is true for users: mypy and pyright accept every example of the docs as it stands, in strict mode."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tests.docs.example_programs import PACKAGE, Program, programs_of, programs_of_docs, write
from tests.docs.pages import ROOT, Page, read_page

STATIC_TESTS = sorted((ROOT / "tests").rglob("test_*_static_types.py"))
"""They say what type checkers know, and are read with the examples."""
WRONG = """\
# A page with mistakes

```python
from handrail import Session, tool
from handrail.testing import ScriptedModel, text


@tool
def double(number: int) -> int:
    return 2 * number
```

```python
session = Session(ScriptedModel([text("A")]))
reply = await session.ask_async("?", returns=int)
for event in session.stream("?"):
    pass
async for event in session.stream_async("?"):
    event.unknown
async with session as entered:
    print(reply.value.upper(), entered.unknown)
print(double.unknown)
```
"""
"""Both checkers have to see the mistakes of this one, or they look at nothing."""
_USES_LANGCHAIN = "docs_howto_adapters"
"""The page whose example meets types that LangChain leaves open."""
MISTAKES = ["docs/wrong.md:19", "docs/wrong.md:21", "docs/wrong.md:22"]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Program]:
    path = tmp_path_factory.mktemp("page") / "wrong.md"
    path.write_text(WRONG, encoding="utf-8")
    page = read_page(path)
    wrong = programs_of(Page(ROOT / "docs" / "wrong.md", page.blocks, page.prose))
    tests = [
        Program(each.relative_to(ROOT).as_posix(), PurePosixPath("tests", each.name), each.read_text(encoding="utf-8"))
        for each in STATIC_TESTS
    ]
    return [*programs_of_docs(), *tests, *wrong]


def test_mypy_accepts_every_example(programs: list[Program], tmp_path: Path) -> None:
    write(programs, tmp_path)

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", "--no-pretty", tmp_path / PACKAGE],
        cwd=ROOT,  # its settings are the project's, and so is its cache
        env={"MYPYPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    found = re.findall(rf"^\S*?{PACKAGE}/(\S+):(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    _compare(programs, ((file, int(line), words) for file, line, words in found))


def test_pyright_accepts_every_example(programs: list[Program], tmp_path: Path) -> None:
    write(programs, tmp_path)
    settings = {
        "include": [PACKAGE],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "reportUnnecessaryTypeIgnoreComment": True,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")

    said = _pyright("--project", str(tmp_path))

    assert said["summary"]["filesAnalyzed"] > len(programs)
    _compare(
        programs,
        (
            (found["file"].rpartition(f"/{PACKAGE}/")[2], found["range"]["start"]["line"] + 1, found["message"])
            for found in said["generalDiagnostics"]
            if not (_USES_LANGCHAIN in found["file"] and found.get("rule", "").startswith("reportUnknown"))
        ),
    )


def test_pyright_knows_the_type_of_every_public_name(tmp_path: Path) -> None:
    names = set((ROOT / "tests" / "public_names.txt").read_text(encoding="utf-8").split())

    # This reads the package as one that is installed, and looks for it where the first Python on the PATH does.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    said = _pyright("--verifytypes", "handrail", "--ignoreexternal", cwd=tmp_path, PATH=path)

    known = {
        each["name"]: each["isTypeKnown"] and not each["isTypeAmbiguous"]
        for each in said["typeCompleteness"]["symbols"]
    }
    assert names - known.keys() == set()
    assert sorted(name for name in names if not known[name]) == []


def _compare(programs: list[Program], found: Iterable[tuple[str, int, str]]) -> None:
    """Fail unless the mistakes of the wrong page are all that was found."""
    sources = {program.path.as_posix(): program.source for program in programs}
    told = [(f"{sources.get(file, file)}:{line}", words) for file, line, words in found]
    assert [f"{place}: {words}" for place, words in told if not place.startswith("docs/wrong.md")] == []
    assert sorted({place for place, _ in told}) == MISTAKES


def _pyright(*arguments: str, cwd: Path = ROOT, **variables: str) -> dict[str, Any]:
    """What pyright says; it is the one of our environment and fetches nothing, as Node is installed there too."""
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", *arguments],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said
