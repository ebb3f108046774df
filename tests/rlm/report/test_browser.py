"""The page of a real run, in a real browser that can reach nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from handrail.rlm import RLM
from handrail.rlm.record.trajectory import RLMLogger, read
from handrail.rlm.report import from_trajectory, render
from tests.chromium import CHROMIUM, WITHOUT_SANDBOX
from tests.rlm.root_models import Echo, Root, ready, repl


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
def test_it_opens_without_a_word_of_complaint_and_shows_the_run(tmp_path: Path) -> None:
    logger = RLMLogger(tmp_path / "logs")
    root = Root(repl("print(llm_query('<script>alert(1)</script><img src=http://example.com/x>'))"), ready("'deep'"))
    with RLM(root, environment="process", other_backends=[Echo()], logger=logger) as rlm:
        done = rlm.completion("some text", "What is below?")
    page = tmp_path / "run.html"
    page.write_text(render(from_trajectory(read(logger.log_file_path or ""), done)))

    options = ("--headless", *WITHOUT_SANDBOX, "--disable-gpu", "--enable-logging=stderr", "--dump-dom")
    shown = subprocess.run(
        [CHROMIUM or "", *options, f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert "<h1>What is below?</h1>" in shown.stdout and "deep" in shown.stdout
    assert [line for line in shown.stderr.splitlines() if "CONSOLE" in line] == []
