"""What the pages say of other frameworks is what programs print: the way from each to here, and the comparison."""

from __future__ import annotations

import io
import runpy
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.docs.model_service import local_model_service, point_service_at
from tests.docs.pages import ROOT, read_page
from tests.docs.peer_programs import PATIENCE, run_with
from tests.docs.test_tables import rows

MIGRATING = Path("docs/examples/migrating")
COMPARISON = Path("docs/examples/comparison")
COLUMNS = {"handrail": 2, "pydantic_ai": 3, "langchain": 4, "openai_agents": 5}
COMING_FROM = [name for name in COLUMNS if name != "handrail"]
ANSWERS = """\
Order 17 is on its way.
asked: refund {'number': 17, 'cents': 2450}
Refunded 2450 cents of order 17.
"""


def column(name: str) -> str:
    """What the comparison says of one of them, as its program would print it."""
    table = rows("comparison.md", "## What happens to a call")
    return "".join(f"{row[0]}: {row[COLUMNS[name]]}\n" for row in table)


@pytest.mark.parametrize("peer", COMING_FROM)
def test_the_programs_of_a_framework_print_what_the_pages_say_of_it(peer: str, tmp_path: Path) -> None:
    with local_model_service() as url:
        before, scenes = run_with(
            peer,
            MIGRATING / f"{peer}_before.py",
            COMPARISON / f"with_{peer}.py",
            folder=tmp_path,
            OPENAI_BASE_URL=f"{url}/openai/v1",
            OPENAI_API_KEY="the-key",
        )

    assert before == ANSWERS
    assert scenes == column(peer)


@pytest.mark.parametrize("peer", COMING_FROM)
def test_the_program_after_says_the_same(peer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with local_model_service() as url, redirect_stdout(printed):
        point_service_at("openai", url, monkeypatch)
        runpy.run_path(str(ROOT / MIGRATING / f"{peer}_after.py"))

    assert printed.getvalue() == ANSWERS


def test_a_handoff_from_openai_agents_ends_with_the_same_agent_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with local_model_service() as url, redirect_stdout(printed):
        variables = {"OPENAI_BASE_URL": f"{url}/openai/v1", "OPENAI_API_KEY": "the-key"}
        program = MIGRATING / "openai_agents_handoff_before.py"
        (before,) = run_with("openai_agents", program, folder=tmp_path, **variables)
        point_service_at("openai", url, monkeypatch)
        runpy.run_path(str(ROOT / MIGRATING / "openai_agents_handoff_after.py"))

    assert printed.getvalue() == before == "billing\n"


@pytest.mark.parametrize("peer", [*COMING_FROM, "openai_agents_handoff"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_the_page_shows_the_programs_as_they_are(peer: str, when: str) -> None:
    path = MIGRATING / f"{peer}_{when}.py"
    page = read_page(ROOT / "docs" / "migrating" / f"{peer.removesuffix('_handoff').replace('_', '-')}.md")

    (shown,) = [block.text for block in page.blocks if block.file == path.name]

    assert shown == f"# {path.name}\n{(ROOT / path).read_text(encoding='utf-8')}"


@pytest.mark.parametrize("peer", COMING_FROM)
def test_the_page_shows_what_both_programs_print(peer: str) -> None:
    page = read_page(ROOT / "docs" / "migrating" / f"{peer.replace('_', '-')}.md")

    assert next(block.text for block in page.blocks if block.language == "text") == ANSWERS


def test_our_own_column_is_what_our_program_prints(tmp_path: Path) -> None:
    program = ROOT / COMPARISON / "with_handrail.py"

    done = subprocess.run(
        [sys.executable, "-W", "error", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert (done.returncode, done.stderr, done.stdout) == (0, "", column("handrail"))


def test_the_costs_are_those_of_the_page_about_performance() -> None:
    measured = {row[0]: row for row in rows("performance.md", "## A turn, against a loop by hand and four frameworks")}
    weights = {row[0]: row for row in rows("performance.md", "### Weight")}
    order = ("handrail", "pydantic-ai", "langchain", "openai-agents", "litellm")
    columns = ("", "by hand", "handrail", "spread", "journal", "litellm", "langchain", "openai-agents", "pydantic-ai")
    table = rows("comparison.md", "## What it costs")

    shown = [row[1:] for row in table]

    assert shown[:2] == [[weights[name][column].strip("*") for name in order] for column in (1, 3)]
    assert shown[2:] == [
        [measured[job][columns.index(name)].strip("*") for name in order]
        for job in ("one tool", "a hundred turns", "100 KB of streamed arguments")
    ]
