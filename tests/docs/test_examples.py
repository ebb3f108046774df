"""Every example of README.md and docs/ runs, and prints what its page shows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.approved import approve
from tests.docs.console_runner import PATIENCE
from tests.docs.model_service import service_of
from tests.docs.page_runner import run_page
from tests.docs.pages import ROOT, Page, matches, pages, read_page

PAGES = pages()
PROGRAMS = sorted((ROOT / "docs" / "examples").glob("*.py"))
NOT_RUN: dict[str, int] = {}
"""How many blocks of each page are not run. To let one more out, change this and say why in the review."""


@pytest.mark.parametrize("page", [page for page in PAGES if page.blocks], ids=lambda page: page.name)
def test_the_examples_of_a_page_run_and_print_what_it_shows(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service_of(page, monkeypatch):
        run_page(page, tmp_path, monkeypatch)


def test_no_more_blocks_are_left_out_than_were_agreed() -> None:
    left_out = {page.name: sum(block.not_run is not None for block in page.blocks) for page in PAGES}

    assert {name: count for name, count in left_out.items() if count} == NOT_RUN


def test_python_is_always_called_python() -> None:
    others = ("py", "python3", "pycon", "ipython", "Python")

    assert [(page.name, block.line) for page in PAGES for block in page.blocks if block.language in others] == []


def _folder(path: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in path.iterdir() if entry.is_file()}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_a_program_in_docs_examples_runs_from_any_folder_and_leaves_it_as_it_was(program: Path, tmp_path: Path) -> None:
    before = _folder(tmp_path)

    done = subprocess.run(
        [sys.executable, "-W", "error", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert _folder(tmp_path) == before


def test_the_shop_of_the_pictures_works(tmp_path: Path) -> None:
    house = tmp_path / "house"
    shutil.copytree(ROOT / "docs" / "examples" / "house", house, ignore=shutil.ignore_patterns("__pycache__"))
    approve(house / "handrail.toml", tmp_path)

    done = subprocess.run(
        [sys.executable, "-m", "handrail", "ask", "--yes", "We need 20 umbrellas."],
        cwd=house,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert (done.returncode, "order `A-1042`, 8 umbrellas" in done.stdout) == (0, True), done.stderr


def _written(tmp_path: Path, text: str) -> Page:
    # Under the project's folder by name only: a page names itself relative to it.
    page = read_page(_file(tmp_path, text))
    return Page(ROOT / "docs" / "sample.md", page.blocks, page.prose)


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sample.md"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# A\n\n```python\nx = 1\ny = x / 0\n```\n", "docs/sample.md:5: ZeroDivisionError"),
        ("```python\nprint(1)\n```\n", "docs/sample.md:2: it prints this, and the page does not show it:\n1"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "docs/sample.md:6: the block above it prints this:\n1"),
        ("```python\nx =\n```\n", "docs/sample.md:2: SyntaxError"),
        ("```python\nawait undefined()\n```\n", "docs/sample.md:2: NameError"),
        ("```python\nimport warnings\nwarnings.warn('old')\n```\n", "docs/sample.md:3: UserWarning: old"),
    ],
)
def test_a_wrong_example_fails_with_its_page_and_line(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = _written(tmp_path, text)

    with pytest.raises(pytest.fail.Exception) as failed:
        run_page(page, tmp_path, monkeypatch)

    assert str(failed.value).startswith(said)


def test_blocks_share_a_session_wait_for_each_other_and_may_be_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
```python
# tool_box.py
SIZE = 3
```

```python
import asyncio
from tool_box import SIZE
ready = asyncio.Event()
```

```python
ready.set()
await ready.wait()
print(SIZE)
```

```text
3
```

<!-- not run: it would never end -->
```python
while True:
    pass
```
"""
    page = _written(tmp_path, text)

    run_page(page, tmp_path, monkeypatch)

    assert [block.not_run for block in page.blocks] == [None, None, None, None, "it would never end"]
    assert "tool_box" not in sys.modules


def test_an_ellipsis_on_a_page_stands_for_text_within_a_line() -> None:
    assert matches("run_0a1b done\n", "run_… done\n")
    assert not matches("run_0a1b\ndone\n", "run_…done\n")
    assert not matches("run_0a1b done, or not\n", "run_… done\n")
