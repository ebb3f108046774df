"""Agents of other frameworks with guarded tools, killed by SIGKILL and resumed by their framework: paid once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

KILLED = Path(__file__).parents[2] / "docs" / "examples" / "adapters" / "killed.py"
HONEST = {
    "paid once, and known",
    "paid once, in doubt until a person looks",
    "not paid, in doubt until a person looks",
}


@pytest.mark.parametrize("framework", ["pydantic_ai", "langchain", "openai_agents"])
def test_an_agent_that_was_killed_pays_once_and_is_told_the_truth(framework: str) -> None:
    program = [sys.executable, str(KILLED), framework, "4"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    verdicts = {line.strip().partition("  ")[2] for line in done.stdout.splitlines()}
    assert "paid once, and known" in verdicts
    assert verdicts <= HONEST
