"""A question over a context of any size with the embedded model: it never says a number that code did not find."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from handrail import RLM
from handrail.models.local.model import LocalModel
from handrail.models.local.weights import EngineFiles
from tests.cli.journal_fixtures import run

NEEDLE = "The lighthouse was sold to Marta Quist in 1911."
PLACES = (812, 1702, 2999, 3500, 4711)
NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")


@pytest.fixture
def log(files: EngineFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """5,000 lines, 5 of them errors."""
    monkeypatch.chdir(tmp_path)
    lines = [f"12:{at // 60 % 60:02}:{at % 60:02} INFO auth served request {at}" for at in range(5_000)]
    for at, service in zip(PLACES, ("billing", "auth", "mail", "billing", "search"), strict=True):
        lines[at] = f"12:{at // 60 % 60:02}:{at % 60:02} ERROR {service} gave up"
    path = tmp_path / "app.log"
    path.write_text("\n".join(lines) + "\n")
    return path


async def test_a_question_over_a_long_text_is_answered_by_the_embedded_model(local: LocalModel, tmp_path: Path) -> None:
    line = "All work and no play makes a long and dull text, and there is much of it.\n"
    (tmp_path / "hay.txt").write_text(line * 60_000 + NEEDLE + "\n" + line * 20_000)
    async with asyncio.timeout(120), RLM(local) as rlm:
        found = await rlm.acompletion(tmp_path / "hay.txt", "Who bought the lighthouse?")

    assert found.error is None and f"hay.txt, line 60001: {NEEDLE}" in found.response
    assert set(NUMBER.findall(found.response)) == {"60001", "1911"}
    used = found.usage_summary.model_usage_summaries["local"]
    assert (used.total_calls or 0) >= 1 and (used.total_output_tokens or 0) > 0


@pytest.mark.parametrize(
    ("question", "first", "cited"),
    [
        ("How many ERROR lines are there?", '5 lines contain "ERROR".', PLACES),
        ("how many errors did billing have?", '2 lines contain "errors" and "billing".', (812, 3500)),
        ("Wie viele Fehler gab es?", '5 Zeilen enthalten "error" (statt "Fehler"', PLACES),
        ("Which service failed first?", 'The first line with "error" (for "failed"', (812,)),
        ("How many dragons are there?", '0 lines contain "dragons".', ()),
    ],
)
def test_the_command_line_counts_lines_in_code_and_cites_them(
    log: Path, question: str, first: str, cited: tuple[int, ...]
) -> None:
    result = run("rlm", "ask", "--context", str(log), "-m", "local", question)

    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(first)
    assert re.findall(r"^- app.log, (?:line|Zeile) (\d+):", result.stdout, re.MULTILINE) == [
        str(at + 1) for at in cited
    ]


@pytest.mark.parametrize("question", ["What happened to mail?", "Was ist mit mail passiert?"])
def test_no_number_is_said_that_stands_in_no_cited_line(log: Path, question: str) -> None:
    result = run("rlm", "ask", "--context", str(log), "-m", "local", question)

    *said, cited = result.stdout.strip().split("\n\n")
    assert (result.exit_code == 0 and "line 3000: " in cited) or "Zeile 3000: " in cited
    assert set(NUMBER.findall(" ".join(said))) <= set(NUMBER.findall(cited))
