"""The program that prints the table of `docs/reliability.md`, at a few moments of each row; `make soak` tries all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reliability.report import rows_on
from reliability.rows import ROWS, row_named

ROOT = Path(__file__).parent.parent.parent


def test_every_row_of_the_program_is_on_the_page_and_was_paid_once() -> None:
    rows = [row_named(name) for name in ROWS]
    page = rows_on()
    assert list(page) == [row.name for row in rows]
    for row in rows:
        _, killed, kills, paid_once, _ = page[row.name]
        assert killed == row.killed
        assert int(kills) > 0 and paid_once == kills


@pytest.mark.slow
def test_a_payment_is_made_once_whoever_is_killed() -> None:
    """All rows in one program: most of its time would go to the imports of each."""
    command = [sys.executable, "-m", "reliability", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
