"""The attacks on an interpreter, against one that has all that they need, behind its jail."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from handrail.sandbox.jail import Jail, unavailable
from handrail.sandbox.kernel import KernelSandbox
from handrail.sandbox.port import Cell, ReplLimits
from tests.sandbox.attacks.interpreter_attacks import GROUPS, PROGRAM, Facts
from tests.sandbox.host_watch import HostWatch, goes_on

SECRET = "the-secret-of-the-host"
LIMITS = ReplLimits(memory_bytes=64 * 2**20, cell_seconds=0.15, output_chars=20_000, host_calls=50, message_bytes=2**20)


async def answer(name: str, value: object) -> object:
    return {"name": name}


pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


@pytest.mark.parametrize("group", GROUPS)
async def test_attacks_on_an_interpreter_stay_in_its_jail(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANDRAIL_CANARY", SECRET)
    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET)
    facts = Facts(file=str(secret), variable="HANDRAIL_CANARY", pid=os.getpid())
    async with KernelSandbox(LIMITS, jail=Jail.for_repl(LIMITS), warm=1, grace=0.1) as sandbox, HostWatch() as host:
        repl = await sandbox.repl()
        for attack in GROUPS[group]:
            async with asyncio.timeout(60):
                cell = await repl.run(attack.against(facts), answer, peek=("got", "x"))
                went_on = await goes_on(repl)
            assert SECRET not in _all_that_came_back(cell), attack.name
            assert went_on, attack.name

    assert secret.read_text() == SECRET
    assert host.grown < 3 * LIMITS.memory_bytes
    assert host.longest < 5.0


async def test_attacks_on_the_program_that_runs_cells_cost_at_most_the_interpreter() -> None:
    async with KernelSandbox(LIMITS, jail=Jail.for_repl(LIMITS), warm=1, grace=0.1) as sandbox, HostWatch() as host:
        repl = await sandbox.repl()
        for attack in PROGRAM:
            async with asyncio.timeout(60):
                await repl.run(attack.code, answer)
                went_on = await goes_on(repl)
            assert went_on, attack.name

    assert host.grown < LIMITS.memory_bytes
    assert host.longest < 5.0


def _all_that_came_back(cell: Cell) -> str:
    return repr((cell.stdout, cell.stderr, cell.error, cell.values, cell.names))
