"""What is tried from inside a CPython behind a jail: the corpus of attacks, and fault case 41 of the project."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handrail.sandbox.jail import Jail, unavailable
from handrail.sandbox.kernel import KernelSandbox
from handrail.sandbox.port import Cell, Repl, ReplLimits
from tests.contracts.repl_contract import PATIENCE, peak
from tests.sandbox.attacks import os_attacks as attacks
from tests.sandbox.attacks.os_attacks import CANARY, Attack, Facts
from tests.sandbox.jail.conftest import LIMITS, facts

__all__ = ["facts"]

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

INSIDE = ReplLimits(memory_bytes=192 * 2**20, cell_seconds=10.0, output_chars=10_000, disk_bytes=LIMITS.disk_bytes)


@pytest.fixture
async def repl() -> AsyncIterator[Repl]:
    async with KernelSandbox(INSIDE, jail=Jail(LIMITS), warm=0, grace=0.2) as sandbox:
        yield await sandbox.repl()


async def attacked(repl: Repl, one: Attack) -> Cell:
    return await asyncio.wait_for(repl.run(one.code, peek=("got",)), PATIENCE)


@pytest.mark.requirement("rlm.repl.sandbox")
async def test_no_attack_gets_anything(repl: Repl, facts: Facts) -> None:
    await repl.put("host", dict(facts))
    escaped = {}
    for one in (*attacks.CALM, *attacks.AFTER_LOCK):
        cell = await attacked(repl, one)
        if cell.state != "kept" or (cell.ending == "ok" and cell.values["got"]):
            escaped[one.name] = (cell.ending, cell.error, cell.values)
    assert escaped == {}


@pytest.mark.requirement("rlm.repl.sandbox")
@pytest.mark.parametrize("one", attacks.ENDS[:-1], ids=lambda one: one.name)
async def test_an_attack_that_ends_its_interpreter_ends_nothing_else(repl: Repl, facts: Facts, one: Attack) -> None:
    await repl.put("host", dict(facts))
    cell = await attacked(repl, one)
    assert (cell.ending, cell.state) == ("lost", "gone")
    assert (await repl.run("print('on')")).stdout == "on\n"


async def test_what_the_jail_holds_back_is_there_without_it(facts: Facts) -> None:
    """Two attacks that do no harm, to see that they have teeth. No other one may ever run without a jail: they write
    to the machine's Python and to the settings of its kernel, and root may do that."""
    harmless = {"a file of the host", "the host's loopback"}
    async with KernelSandbox(INSIDE, warm=0) as sandbox:
        repl = await sandbox.repl()
        await repl.put("host", dict(facts))
        got = {one.name for one in attacks.CALM if one.name in harmless and (await attacked(repl, one)).values["got"]}
        assert got == harmless


def is_there(path: str) -> bool:
    return os.path.lexists(path)


class TestFaultCase41:
    """Environment leak, fork bomb, stdout flood, symlink, pickle, ANSI: contained; only JSON crosses the boundary."""

    async def test_the_hosts_environment_is_nowhere(self, repl: Repl, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(CANARY, "sk-canary")
        code = (
            "import os, glob\n"
            "seen = ' '.join(f'{k}={v}' for k, v in os.environ.items())\n"
            "for path in glob.glob('/proc/*/environ') + glob.glob('/proc/*/cmdline'):\n"
            "    seen += open(path, errors='replace').read()\n"
        )
        cell = await repl.run(code, peek=("seen",))
        assert cell.error == ""
        assert "PYTHONHASHSEED" in cell.values["seen"]
        assert CANARY not in cell.values["seen"]
        assert "sk-canary" not in cell.values["seen"]

    async def test_a_fork_bomb_does_not_go_off(self, repl: Repl) -> None:
        bomb = "import os\nforked = 0\nfor i in range(1000):\n    os.fork()\n    forked += 1"
        cell = await repl.run(bomb, peek=("forked",))
        assert (cell.ending, cell.values) == ("error", {"forked": 0})
        assert "PermissionError" in cell.error

    async def test_a_flood_of_output_below_python_stays_out_of_the_hosts_memory(self, repl: Repl) -> None:
        flood = (
            "import os, threading\n"
            "def pour(fd):\n"
            "    while True:\n        os.write(fd, b'x' * 2**16)\n"
            "for fd in (1, 2, 1, 2):\n    threading.Thread(target=pour, args=(fd,), daemon=True).start()\n"
            "pour(1)"
        )
        with peak() as memory:
            cell = await asyncio.wait_for(repl.run(flood), PATIENCE)
        assert cell.ending == "output"
        assert len(cell.stdout) + len(cell.stderr) == INSIDE.output_chars
        assert memory.grown < 50 * 2**20

    async def test_a_link_that_a_cell_leaves_behind_leads_nowhere(self, tmp_path: Path) -> None:
        """Without a jail, since only there the directory of a cell is one of the host's, which the host removes."""
        (tmp_path / "precious.txt").write_text("here")
        async with KernelSandbox(INSIDE, warm=0) as sandbox:
            repl = await sandbox.repl()
            cell = await repl.run(
                f"import os\nos.symlink({str(tmp_path)!r}, 'link')\nwhere = os.getcwd()", peek=("where",)
            )
            assert cell.error == ""
            assert is_there(f"{cell.values['where']}/link")
        assert not is_there(cell.values["where"])
        assert (tmp_path / "precious.txt").read_text() == "here"

    async def test_a_pickle_with_ideas_of_its_own_crosses_as_text_or_not_at_all(self, repl: Repl) -> None:
        code = (
            "import os, pickle\n"
            "class Evil:\n    def __reduce__(self):\n        return (os.system, ('touch escaped',))\n"
            "evil, packed = Evil(), pickle.dumps(Evil())\n"
            "_host('x', evil)"
        )

        async def host(name: str, value: object) -> None:
            raise NotImplementedError("this must not be asked")

        cell = await repl.run(code, host, peek=("evil", "packed"))
        assert cell.error.endswith("it is not JSON: Object of type Evil is not JSON serializable")
        assert cell.values["evil"].startswith("<__main__.Evil object")
        assert cell.values["packed"].startswith("b'")

    async def test_what_a_terminal_would_obey_is_text(self, repl: Repl) -> None:
        cell = await repl.run("print('\\x1b]52;c;AAAA\\x07', end='')\nraise ValueError('\\x1b[2J')")
        assert cell.stdout == "\x1b]52;c;AAAA\x07"
        assert cell.error.endswith("ValueError: \x1b[2J")
