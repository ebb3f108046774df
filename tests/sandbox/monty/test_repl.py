"""What a REPL in Monty does beyond the contract that every REPL keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from handrail.core.errors import UsageError
from handrail.sandbox.monty import MontySandbox
from handrail.sandbox.port import HostError, Repl, ReplLimits, create_sandbox
from tests.sandbox.host_watch import HostWatch

SMALL = ReplLimits(memory_bytes=64 * 2**20, cell_seconds=0.25, output_chars=1_000, host_calls=20, message_bytes=2**20)


@pytest.fixture
async def repl() -> AsyncIterator[Repl]:
    async with MontySandbox(replace(SMALL, cell_seconds=60.0)) as sandbox:
        yield await sandbox.repl(seed=7)


@pytest.fixture
async def hurried() -> AsyncIterator[Repl]:
    async with MontySandbox(replace(SMALL, cell_seconds=1.0)) as sandbox:
        yield await sandbox.repl(seed=7)


async def echo(name: str, value: Any) -> Any:
    return value


async def test_it_is_made_by_its_name() -> None:
    async with create_sandbox("monty", SMALL) as sandbox:
        assert (sandbox.kind, (await sandbox.repl()).kind) == ("monty", "monty")


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("x = 2\nwhile True: pass", "timeout"),
        ("x = 2\nimport time\ntime.sleep(60)", "timeout"),
        ("x = []\nwhile True: x.append('a' * 10_000)", "memory"),
        ("x = 2\nwhile True: print('a' * 100)", "output"),
        ("x = 2\nwhile True: _host('more')", "calls"),
    ],
    ids=["loop", "sleep", "memory", "output", "calls"],
)
async def test_a_cell_that_is_ended_leaves_the_variables_from_before_it(code: str, ending: str) -> None:
    limits = SMALL if ending == "timeout" else replace(SMALL, cell_seconds=60.0)
    async with MontySandbox(limits) as sandbox:
        repl = await sandbox.repl()
        await repl.run("x, f = 1, lambda: x + 1")
        cell = await repl.run(code, echo)
        after = await repl.run("print(f())", peek=("x",))

    assert (cell.ending, cell.state, cell.names) == (ending, "kept", {"x": "int", "f": "function"})
    assert cell.error
    assert (after.stdout, after.values) == ("2\n", {"x": 1})


async def test_variables_too_large_to_be_kept_aside_are_gone_when_a_cell_is_ended(hurried: Repl) -> None:
    await hurried.run("x = 'a' * 40_000_000")

    cell = await hurried.run("while True: pass")
    after = await hurried.run("x")

    assert (cell.ending, cell.state, cell.names) == ("timeout", "gone", {})
    assert "NameError" in after.error


async def test_variables_that_a_host_took_down_with_a_cell_are_said_to_be_lost(repl: Repl) -> None:
    async def broken(name: str, value: Any) -> Any:
        raise LookupError(name)

    await repl.run("x = 'a' * 40_000_000")
    with pytest.raises(LookupError):
        await repl.run("_host('x')", broken)
    cell = await repl.run("print('ran')")

    assert (cell.ending, cell.state, cell.stdout) == ("lost", "gone", "")
    assert (await repl.run("print('on')")).stdout == "on\n"


async def test_variables_too_large_to_be_kept_aside_outlive_an_allocation_that_is_refused(repl: Repl) -> None:
    await repl.run("x = 'a' * 40_000_000")

    cell = await repl.run("y = 'a' * 10**10")
    after = await repl.run("print(len(x))")

    assert (cell.ending, cell.state, after.stdout) == ("memory", "kept", "40000000\n")


async def test_ten_million_characters_can_be_put_and_the_host_keeps_its_size() -> None:
    text = "ab\n é" * 2_000_000
    async with MontySandbox(ReplLimits(cell_seconds=20.0)) as sandbox, HostWatch() as host:
        repl = await sandbox.repl()
        await repl.put("context", text)
        cell = await repl.run("print(len(context), context.count('é'))\ntail = context[-7:]", peek=("tail",))

    assert (cell.stdout, cell.values, cell.names) == ("10000000 2000000\n", {"tail": text[-7:]}, {"tail": "str"})
    assert host.grown < 200 * 2**20


async def test_what_is_put_and_does_not_fit_leaves_the_other_variables() -> None:
    async with MontySandbox(ReplLimits(memory_bytes=64 * 2**20, cell_seconds=20.0)) as sandbox:
        repl = await sandbox.repl()
        await repl.run("x = 1")
        with pytest.raises(UsageError, match="memory_bytes"):
            await repl.put("context", ["a"] * 5_000_000)

        assert (await repl.run("print(x)")).stdout == "1\n"


async def test_an_error_names_the_lines_of_the_cells_and_none_of_ours(repl: Repl) -> None:
    await repl.run("def f():\n    return _host('x', {1})")
    cell = await repl.run("a = 1\nf()")

    assert cell.error == (
        "Traceback (most recent call last):\n"
        '  File "<cell 2>", line 2, in <module>\n    f()\n'
        "  File \"<cell 1>\", line 2, in f\n    return _host('x', {1})\n"
        "ValueError: it is not JSON: Object of type set is not JSON serializable"
    )


async def test_code_that_ends_too_early_is_a_syntax_error_that_shows_nothing_of_ours(repl: Repl) -> None:
    assert (await repl.run("f(")).error == "SyntaxError: unexpected EOF while parsing"


@pytest.mark.parametrize(
    ("kind", "raised"),
    [("ConnectionError", "OSError"), ("Odd", "RuntimeError"), ("SystemExit", "RuntimeError"), ("open", "RuntimeError")],
)
async def test_what_a_host_raises_is_the_nearest_exception_that_monty_has(repl: Repl, kind: str, raised: str) -> None:
    async def refuse(name: str, value: Any) -> Any:
        raise HostError("no", kind)

    cell = await repl.run("try:\n    _host('x')\nexcept Exception as e:\n    print(type(e).__name__)", refuse)

    assert cell.stdout == f"{raised}\n"


async def test_names_and_values_that_code_makes_up_are_not_believed(repl: Repl) -> None:
    """Code may put something of its own where the look at the variables is."""
    many = "','.join([f'\"v{i}\":\"int\"' for i in range(100_000)])"
    for names, values in (('\'"a":"int"\'', '"other":"1"'), (many, ""), ('"\\"a b\\":\\"int\\""', "")):
        cell = await repl.run(
            f"_handrail_look = lambda *a: '{{\"names\":{{' + {names} + '}},\"values\":{{{values}}}}}'"
        )
        assert cell.values == {}
        assert cell.names in ({}, {"a": "int"})


async def test_an_error_whose_variables_cannot_be_looked_at_is_said_to_have_undone_them(hurried: Repl) -> None:
    cell = await hurried.run("x = [0]\nfor i in range(60): x = [x, x]\n1 / 0", peek=("x",))

    assert (cell.ending in ("timeout", "memory"), cell.state, cell.names) == (True, "kept", {})
    assert "ZeroDivisionError" in cell.error
    assert "could not be looked at" in cell.error


async def test_calls_in_comprehensions_and_coroutines_reach_the_host(repl: Repl) -> None:
    code = """
import asyncio
async def ask(i): return _host("n", i)
async def all(): return await asyncio.gather(ask(1), ask(2))
print([_host("n", i) for i in range(3)], asyncio.run(all()), await ask(3))
"""
    assert (await repl.run(code, echo)).stdout == "[0, 1, 2] [1, 2] 3\n"


async def test_sleeping_counts_as_running_and_gives_what_it_was_told(repl: Repl) -> None:
    both = "await asyncio.gather(asyncio.sleep(0.01, 'a'), asyncio.sleep(0.01, 'b'))"
    code = f"import asyncio, time\ntime.sleep(0.01)\nprint({both})"
    cell = await repl.run(code)

    assert cell.stdout == "['a', 'b']\n"
    assert cell.seconds >= 0.03


async def test_cells_may_call_their_variables_what_they_like(repl: Repl) -> None:
    await repl.run("type = len = str = repr = list = dict = isinstance = locals = all = tuple = 5")
    cell = await repl.run("x = _host('x', {'a': [1]})", echo, peek=("x", "type"))

    assert cell.values == {"x": {"a": [1]}, "type": 5}
    assert cell.names["x"] == "dict"


async def test_clocks_are_real_and_in_no_time_zone_of_the_host(repl: Repl) -> None:
    cell = await repl.run(
        "import time, datetime\na = time.time()\nz = datetime.datetime.now().astimezone().utcoffset()", peek=("a",)
    )

    assert cell.values["a"] > 1_700_000_000
    assert (await repl.run("print(z.total_seconds())")).stdout == "0.0\n"
