"""Code that wants out of Monty, or wants to take the host down with it."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from handrail.sandbox.monty import MontySandbox
from handrail.sandbox.port import Cell, ReplLimits
from tests.sandbox.attacks.interpreter_attacks import GROUPS, Facts
from tests.sandbox.host_watch import HostWatch, goes_on

SECRET = "the-secret-of-the-host"
LIMITS = ReplLimits(memory_bytes=64 * 2**20, cell_seconds=0.25, output_chars=20_000, host_calls=50, message_bytes=2**20)


async def answer(name: str, value: object) -> object:
    return {"name": name}


@pytest.mark.requirement("rlm.repl.sandbox")
@pytest.mark.parametrize("group", GROUPS)
async def test_attacks_get_nothing_and_harm_nobody(group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDRAIL_CANARY", SECRET)
    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET)
    facts = Facts(file=str(secret), variable="HANDRAIL_CANARY", pid=os.getpid())
    async with (
        MontySandbox(LIMITS, grace=0.2) as hurried,
        MontySandbox(replace(LIMITS, cell_seconds=60.0)) as patient,
        HostWatch() as host,
    ):
        repls = {True: await hurried.repl(), False: await patient.repl()}
        for attack in GROUPS[group]:
            repl = repls["timeout" in attack.monty_endings]
            async with asyncio.timeout(60):
                cell = await repl.run(attack.against(facts), answer, peek=("got", "x"))
                went_on = await goes_on(repl)
                await repl.restart()
            assert cell.ending in attack.monty_endings, (attack.name, cell.error)
            assert SECRET not in _all_that_came_back(cell), attack.name
            assert went_on, attack.name

    assert secret.read_text() == SECRET
    assert host.grown < 3 * LIMITS.memory_bytes
    assert host.longest < 5.0


def _all_that_came_back(cell: Cell) -> str:
    return repr((cell.stdout, cell.stderr, cell.error, cell.values, cell.names))
