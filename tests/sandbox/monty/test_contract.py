"""Monty does what every REPL does. Where its Python is another one, that is said here and held to."""

from __future__ import annotations

import pytest

from handrail.sandbox.monty import MontySandbox
from handrail.sandbox.port import Repl, ReplLimits, Sandbox
from tests.contracts.repl_contract import LIMITS, SHORT, ReplContract, echo, never, patiently


class TestMonty(ReplContract):
    kind = "monty"

    @classmethod
    def make(cls, limits: ReplLimits) -> Sandbox:
        return MontySandbox(limits, grace=0.2)

    async def test_code_that_is_not_python_is_an_error_and_nothing_runs(self, repl: Repl) -> None:
        """A `return` at the top is Monty's Python: it ends the cell."""
        await super().test_code_that_is_not_python_is_an_error_and_nothing_runs(repl)
        cell = await repl.run("print('ran')\nreturn 1\nprint('on')")
        assert (cell.ending, cell.stdout) == ("ok", "ran\n")

    async def test_what_is_not_json_does_not_leave_the_cell(self, repl: Repl) -> None:
        """Nobody can make an `object`."""
        for value in ("{1, 2}", "float('nan')", "float('inf')", "{1: 2}", "b'x'", "print", "10**400"):
            cell = await repl.run(f"_host('x', [{value}])", never)
            assert cell.ending == "error", value
            assert "ValueError" in cell.error
        assert (await repl.run("print(_host('x', 1))", echo)).stdout == "1\n"
        assert "TypeError" in (await repl.run("_host('x', [object()])", never)).error

    @pytest.mark.requirement("rlm.repl.sandbox")
    @pytest.mark.parametrize(
        "code",
        [
            "while True:\n    pass",
            "while True:\n    try:\n        x = [i for i in range(100)]\n    except BaseException:\n        pass",
            "import time\ntime.sleep(1000)",
            "import asyncio\nawait asyncio.sleep(1000)",
            "sum(range(10**12))",
        ],
        ids=["loop", "swallowing", "sleep", "await", "iteration"],
    )
    async def test_a_cell_that_does_not_end_is_ended(self, short: Repl, code: str) -> None:
        await super().test_a_cell_that_does_not_end_is_ended(short, code)

    async def test_arithmetic_that_does_not_end_is_ended_from_outside_and_takes_its_last_output_along(
        self, short: Repl
    ) -> None:
        await short.run("before = 1")
        cell = await patiently(short.run("print('begun')\nx = 3 ** 3_000_000\nwhile True:\n    y = x * x"))
        assert (cell.ending, cell.stdout, cell.state) == ("timeout", "", "kept")
        assert f"{SHORT.cell_seconds:g} s" in cell.error
        assert (await patiently(short.run("print(before)"))).stdout == "1\n"

    async def test_a_dump_that_would_not_fit_is_not_made_and_the_variables_stay(self, fresh: Repl) -> None:
        await fresh.run(f"x = 'a' * {LIMITS.memory_bytes // 2}")
        assert await fresh.dump() is None
        assert (await fresh.run("print(len(x))")).stdout == f"{LIMITS.memory_bytes // 2}\n"
