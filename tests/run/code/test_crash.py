"""A process that dies in the middle of code: what was done is not done twice, and what was under way is in doubt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from handrail import Context, Executor, Policy, Runner
from handrail.core.messages import ResultMessage
from handrail.journal.journal import SqliteJournal
from handrail.run.code.code_mode import CodeMode
from handrail.run.history import conversation_of
from handrail.run.offering import Programs
from handrail.testing.model import ScriptedModel, text
from tests.run.code.dying_payment_process import payer

ROOT = Path(__file__).parents[3]


def killed(folder: Path) -> str:
    """The run that a process began and did not end."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.run.code.dying_payment_process", str(folder)], cwd=ROOT, check=False
    )
    assert done.returncode == 9
    return "run_2"


async def test_code_that_a_crash_cut_off_goes_on_without_paying_twice(tmp_path: Path) -> None:
    run = killed(tmp_path)
    assert (tmp_path / "paid").read_text().split() == ["0", "2", "4"]

    policy = Policy(confirm_side_effects=False)
    async with (
        await SqliteJournal.open(tmp_path / "journal.db") as journal,
        Executor([payer(tmp_path)], journal=journal, policy=policy) as executor,
        CodeMode(executor) as code,
    ):
        so_far = conversation_of(await journal.history(run))
        runner = Runner(ScriptedModel([text("Done.")]), executor, programs=Programs(code.hidden))
        conversation = await runner.run(so_far, Context(run=run))

    (_, second) = [each.result for each in conversation.messages if isinstance(each, ResultMessage)]
    assert (tmp_path / "paid").read_text().split() == ["0", "2", "4"]
    assert "paid 0\npaid 2" in second.text
    assert "in doubt" in second.text or "not known" in second.text
    assert "line 2" in second.text
    assert conversation.text == "Done."
