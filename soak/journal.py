"""A journal of very many entries: written, audited, taken up again."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from handrail.core.calls import ToolResult
from handrail.core.events import CallIntended, CallSettled, Recorded, RunFinished, RunStarted
from handrail.journal.auditing import audit
from handrail.journal.journal import SqliteJournal
from soak.verdict import Verdict

IN_A_RUN = 1000


def _call(run: str, id: str, n: int) -> tuple[CallIntended, CallSettled]:
    intended = CallIntended(
        run=run, at=2, call_id=id, tool="add", side_effects=False, idempotent=False, key=id, arguments={"n": n}
    )
    result = ToolResult(id, "add", n)
    settled = CallSettled(run=run, at=3, call_id=id, tool="add", outcome="ok", duration_us=1, ran=True, result=result)
    return intended, settled


def _events(run: str) -> list[Recorded]:
    """A run of a thousand entries."""
    events: list[Recorded] = [RunStarted(run=run, at=1, tools="")]
    for n in range((IN_A_RUN - 2) // 2):
        events += _call(run, f"call_{n}", n)
    return [*events, RunFinished(run=run, at=4, reason="done")]


async def _write(path: Path, entries: int) -> float:
    started = time.monotonic()
    async with await SqliteJournal.open(path) as journal:
        for number in range(entries // IN_A_RUN):
            for event in _events(f"run_{number}"):
                await journal.append(event, durable=number % 50 == 0)
    return time.monotonic() - started


async def _take_up(path: Path) -> int:
    async with await SqliteJournal.open(path) as journal:
        await journal.append(RunStarted(run="one more", at=5, tools=""), durable=True)
        return len(await journal.history("run_0"))


def long(entries: int = 100_000) -> Verdict:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        wrote = asyncio.run(_write(path, entries))
        kept = asyncio.run(_take_up(path))
        started = time.monotonic()
        report = audit(path)
        took = time.monotonic() - started
        size = path.stat().st_size / 1e6
    ok = report.ok and report.entries == entries // IN_A_RUN * IN_A_RUN + 1 and kept == IN_A_RUN
    speeds = f"{entries / wrote:.0f}/s written, {report.entries / took:.0f}/s verified"
    figures = f"{report.entries} entries, {size:.0f} MB: {speeds}"
    return Verdict(ok, figures, "" if ok else f"{report}")
