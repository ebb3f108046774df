"""What every REPL does, whatever runs the code.

    class TestKernelInAJail(ReplContract):
        @classmethod
        def make(cls, limits: ReplLimits) -> Sandbox: ...

The code in here is Python that CPython and Monty both have. What a limit leaves of the variables differs between
them; that the cell says which, and that it is so, does not.
"""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, ClassVar, get_args

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings, strategies as st

from handrail.core.errors import UsageError
from handrail.sandbox.port import Cell, HostError, Kind, Repl, ReplLimits, Sandbox

PATIENCE = 60.0
"""Seconds that anything may take on a busy machine: only what hangs takes longer."""
LIMITS = ReplLimits(
    memory_bytes=32 * 2**20,
    cell_seconds=20.0,
    output_chars=10_000,
    host_calls=100,
    message_bytes=2**20,
    disk_bytes=2**20,
)
SHORT = ReplLimits(memory_bytes=64 * 2**20, cell_seconds=0.2, output_chars=10_000, host_calls=100)

JSON_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**53 + 1, -(2**63), 2**64, 10**50, 0.1, -0.0, 1e308, 5e-324),
    *("", "plain", "é ß 漢 🙂", "a\x00b", "\x1b[31mred\x1b[0m", "\u2028", 'a"b\\c\n\t', "x" * 1_000),
    *([], {}, [[]], [None, [1, {"a": []}]], {"": 1, "a b": [True], "é": {"n": None}}),
)


async def echo(name: str, value: Any) -> Any:
    return value


async def echo_of(answer: Any, name: str, value: Any) -> Any:
    return answer


async def never(name: str, value: Any) -> Any:
    raise NotImplementedError("this must not be asked")


async def patiently(doing: Awaitable[Cell]) -> Cell:
    async with asyncio.timeout(PATIENCE):
        return await doing


async def is_as_said(repl: Repl, cell: Cell) -> None:
    """The variable `before` is there if the cell said that the state was kept, and the REPL goes on either way."""
    after = await patiently(repl.run("print(before)"))
    if cell.state == "kept":
        assert (after.ending, after.stdout) == ("ok", "1\n")
    else:
        assert after.ending == "error"
        assert "NameError" in after.error
        assert cell.names == {}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


class ReplContract:
    """Most tests share an interpreter, since most of their time would go into starting one."""

    pytestmark = pytest.mark.asyncio(loop_scope="class")
    kind: ClassVar[Kind]

    @classmethod
    def make(cls, limits: ReplLimits) -> Sandbox:
        raise NotImplementedError

    @classmethod
    @asynccontextmanager
    async def opened(cls, limits: ReplLimits = LIMITS) -> AsyncIterator[Repl]:
        async with cls.make(limits) as sandbox:
            yield await sandbox.repl()

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def sandbox(cls) -> AsyncIterator[Sandbox]:
        async with cls.make(LIMITS) as sandbox:
            yield sandbox

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def repl(cls, sandbox: Sandbox) -> Repl:
        return await sandbox.repl()

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def short(cls) -> AsyncIterator[Repl]:
        """With little time for a cell."""
        async with cls.opened(SHORT) as repl:
            yield repl

    @pytest_asyncio.fixture(loop_scope="class")
    async def fresh(self, sandbox: Sandbox) -> AsyncIterator[Repl]:
        """One that no test had before."""
        repl = await sandbox.repl()
        yield repl
        await repl.aclose()

    # ── what code does ──

    async def test_it_says_of_which_kind_it_is(self, sandbox: Sandbox, repl: Repl) -> None:
        assert sandbox.kind == repl.kind == self.kind
        assert self.kind in get_args(Kind)

    async def test_variables_functions_and_imports_last_from_cell_to_cell(self, repl: Repl) -> None:
        await repl.run("import json\nx = [1]\ndef grow():\n    x.append(len(x) + 1)\n    return x")
        await repl.run("grow()\ngrow()")
        cell = await repl.run("print(json.dumps(x))")
        assert cell == Cell(ending="ok", stdout="[1, 2, 3]\n", names=cell.names, seconds=cell.seconds)
        assert cell.seconds > 0

    async def test_what_is_printed_comes_whole_and_in_order(self, repl: Repl) -> None:
        cell = await repl.run("for i in range(500):\n    print(i, end=' ')\nprint('end')")
        assert cell.stdout == "".join(f"{i} " for i in range(500)) + "end\n"

    async def test_what_is_printed_belongs_to_its_own_cell(self, repl: Repl) -> None:
        first, second, third = [await repl.run(code) for code in ("print('a', end='')", "x = 1", "print('c')")]
        assert (first.stdout, second.stdout, third.stdout) == ("a", "", "c\n")

    async def test_the_value_of_the_last_line_is_not_shown(self, repl: Repl) -> None:
        assert (await repl.run("1 + 1")).stdout == ""

    async def test_code_that_does_nothing_much_is_code(self, repl: Repl) -> None:
        for code in ("", "# only a comment", "\n\n", "x = 1\r\ny = 2\r\n", "pass"):
            assert (await repl.run(code)).error == ""

    async def test_text_stays_text_whatever_a_terminal_would_make_of_it(self, repl: Repl) -> None:
        for text in ("é ß 漢 🙂", "a\x00b", "\x1b[2J\x1b]0;title\x07", "tab\there", "\u2028"):
            await repl.put("text", text)
            cell = await repl.run("print(text, end='')", peek=("text",))
            assert (cell.stdout, cell.values) == (text, {"text": text})

    async def test_asyncio_works_in_a_function_and_at_the_top(self, repl: Repl) -> None:
        define = "import asyncio\nasync def one(x):\n    return x + 1"
        run, wait = await repl.run(f"{define}\nprint(asyncio.run(one(1)))"), await repl.run("print(await one(2))")
        assert (run.error, run.stdout, wait.error, wait.stdout) == ("", "2\n", "", "3\n")

    # ── errors ──

    async def test_an_error_shows_the_lines_of_the_cells_and_no_others(self, fresh: Repl) -> None:
        await fresh.run("def half(x):\n    y = 1\n    return y / x")
        cell = await fresh.run("print('before')\nhalf(0)\nprint('after')")
        assert (cell.ending, cell.stdout, cell.state) == ("error", "before\n", "kept")
        lines = cell.error.splitlines()
        assert [line.strip() for line in lines if "File" in line] == [
            'File "<cell 2>", line 2, in <module>',
            'File "<cell 1>", line 3, in half',
        ]
        assert "half(0)" in cell.error
        assert "return y / x" in cell.error
        assert lines[-1] == "ZeroDivisionError: division by zero"

    async def test_an_error_inside_a_library_is_shown_where_the_cell_called_it(self, fresh: Repl) -> None:
        cell = await fresh.run("import json\njson.loads('{')")
        assert 'File "<cell 1>", line 2' in cell.error
        assert "JSONDecodeError" in cell.error or "ValueError" in cell.error
        assert "json/" not in cell.error

    async def test_code_that_is_not_python_is_an_error_and_nothing_runs(self, repl: Repl) -> None:
        for code in ("x = (", "def", "x = 1\n  y = 2", "1 +", "break", "x = \\"):
            cell = await repl.run(f"print('ran')\n{code}")
            assert (cell.ending, cell.stdout, cell.state) == ("error", "", "kept")
            assert "SyntaxError" in cell.error or "IndentationError" in cell.error

    async def test_code_that_is_not_even_text_is_an_error_and_the_repl_goes_on(self, repl: Repl) -> None:
        await repl.run("before = 1")
        for code in ("x = '\ud800'", "\udfff", "\x00"):
            cell = await repl.run(code)
            assert (cell.ending, cell.state) == ("error", "kept")
            await is_as_said(repl, cell)

    async def test_what_an_error_says_is_cut(self, repl: Repl) -> None:
        cell = await repl.run("raise ValueError('begin' + 'x' * 1000000 + 'end')")
        assert cell.ending == "error"
        assert 10_000 < len(cell.error) < 50_000
        assert cell.error.endswith("end")

    async def test_endless_recursion_is_an_error(self, repl: Repl) -> None:
        await repl.run("before = 1")
        cell = await patiently(repl.run("def f(n):\n    return f(n + 1)\nf(0)"))
        assert (cell.ending, "RecursionError" in cell.error, len(cell.error) < 50_000) == ("error", True, True)
        await is_as_said(repl, cell)

    async def test_code_that_is_nested_too_deeply_ends_the_cell(self, repl: Repl) -> None:
        for code in ("(" * 100_000, "x = " + "[" * 5_000 + "]" * 5_000, "-" * 50_000 + "1"):
            await repl.run("before = 1")
            cell = await patiently(repl.run(code))
            assert cell.ending in ("error", "memory", "lost")
            await is_as_said(repl, cell)

    # ── the host ──

    async def test_every_json_value_crosses_both_ways_unchanged(self, repl: Repl) -> None:
        asked: list[tuple[str, Any]] = []

        async def host(name: str, given: Any) -> Any:
            asked.append((name, given))
            return value

        for value in JSON_VALUES:
            asked.clear()
            cell = await repl.run("v = _host('first')\n_host('second', v)", host, peek=("v",))
            assert cell.error == ""
            assert repr(asked) == repr([("first", None), ("second", value)])
            assert repr(cell.values["v"]) == repr(value)

    # Each kind of REPL has a class of its own, and hypothesis wonders about that.
    @settings(max_examples=5, suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow])
    @given(values=st.lists(json_values, min_size=1, max_size=20))
    async def test_any_json_value_crosses_both_ways_unchanged(self, repl: Repl, values: list[Any]) -> None:
        for value in values:
            await repl.put("given", value)
            cell = await repl.run("back = _host('echo', given)", echo, peek=("back", "given"))
            assert cell.error == ""
            assert repr(cell.values) == repr({"back": value, "given": value})

    async def test_what_the_host_refuses_is_an_exception_of_that_kind(self, repl: Repl) -> None:
        async def host(name: str, value: Any) -> Any:
            raise HostError("it is „closed“", name)

        for kind in ("ValueError", "KeyError", "TypeError", "RuntimeError", "NameError", "TimeoutError"):
            cell = await repl.run(f"try:\n    _host('{kind}')\nexcept {kind} as error:\n    print('so', error)", host)
            assert cell.error == ""
            assert cell.stdout.startswith("so ")
            assert "it is „closed“" in cell.stdout

    async def test_a_kind_of_exception_that_cannot_be_made_is_another_one(self, repl: Repl) -> None:
        async def host(name: str, value: Any) -> Any:
            raise HostError("no", name)

        for kind in ("NoSuchError", "print", "__import__", "SystemExit", "UnicodeDecodeError", ""):
            cell = await repl.run(f"try:\n    _host('{kind}')\nexcept Exception as error:\n    print(error)", host)
            assert cell.error == ""
            assert cell.stdout.endswith("no\n")

    async def test_without_a_host_nothing_answers(self, repl: Repl) -> None:
        cell = await repl.run("_host('anything', 1)")
        assert cell.ending == "error"
        assert "NameError: nothing answers to 'anything' here" in cell.error

    async def test_what_else_the_host_raises_ends_the_cell_and_reaches_whoever_ran_it(self, fresh: Repl) -> None:
        async def broken(name: str, value: Any) -> Any:
            raise ZeroDivisionError("a bug in the host")

        await fresh.run("before = 1")
        with pytest.raises(ZeroDivisionError, match="a bug in the host"):
            await fresh.run("while True:\n    try:\n        _host('x')\n    except Exception:\n        pass", broken)
        assert (await patiently(fresh.run("print('on')"))).stdout == "on\n"

    async def test_what_is_not_json_does_not_leave_the_cell(self, repl: Repl) -> None:
        for value in ("{1, 2}", "float('nan')", "float('inf')", "{1: 2}", "b'x'", "object()", "print", "10**400"):
            cell = await repl.run(f"_host('x', [{value}])", never)
            assert cell.ending == "error", value
            assert "ValueError" in cell.error
        assert (await repl.run("print(_host('x', 1))", echo)).stdout == "1\n"

    async def test_an_answer_that_is_not_json_is_an_error_in_the_cell(self, repl: Repl) -> None:
        for answer in ({1, 2}, float("nan"), b"x", {1: 2}, "\ud800", object()):
            cell = await repl.run("_host('x')", partial(echo_of, answer))
            assert (cell.ending, cell.state) == ("error", "kept")
            assert "ValueError" in cell.error

    async def test_half_of_a_surrogate_pair_harms_nobody(self, repl: Repl) -> None:
        await repl.run("before = 1")
        cell = await repl.run("half = chr(0xd800)\nprint(half)\n_host('x', half)", never, peek=("half",))
        assert cell.ending == "error"
        await is_as_said(repl, cell)

    async def test_large_values_cross_whole_and_larger_ones_not_at_all(self, repl: Repl) -> None:
        most = LIMITS.message_bytes - 1_000
        cell = await repl.run(f"print(len(_host('x', 'é' * {most // 2})))", echo)
        assert (cell.error, cell.stdout) == ("", f"{most // 2}\n")
        assert "ValueError" in (await repl.run(f"_host('x', 'é' * {most})", never)).error
        assert "ValueError" in (await repl.run(f"_host('x' * {2 * most})", never)).error
        assert "ValueError" in (await repl.run("_host('x')", partial(echo_of, "é" * most))).error
        assert (await repl.run("print(_host('x', 1))", echo)).stdout == "1\n"

    async def test_a_value_of_too_many_parts_does_not_cross_and_is_not_shown(self, repl: Repl) -> None:
        cell = await repl.run("v = [[]] * 300_000\n_host('x', v)", never, peek=("v",))
        assert cell.ending == "error"
        assert "ValueError" in cell.error
        assert set(map(type, cell.values.values())) <= {str}
        assert (await repl.run("print(_host('x', [[]] * 9))", echo)).stdout == f"{[[]] * 9}\n"

    @pytest.mark.parametrize("depth", [200, 5_000])
    async def test_a_value_that_is_nested_too_deeply_does_not_cross(self, repl: Repl, depth: int) -> None:
        await repl.run("before = 1")
        deep = f"deep = []\nfor i in range({depth}):\n    deep = [deep]\n"
        cell = await patiently(repl.run(f"{deep}_host('x', deep)", never))
        assert cell.ending == "error"
        assert "ValueError" in cell.error
        await is_as_said(repl, cell)
        answer: list[Any] = []
        for _ in range(depth):
            answer = [answer]
        cell = await repl.run("_host('x')", partial(echo_of, answer))
        assert "ValueError" in cell.error
        with pytest.raises(UsageError):
            await repl.put("deep", answer)
        while answer:  # one by one, or the collector would go as deep
            answer = answer.pop()

    async def test_the_clock_stands_still_while_the_host_is_at_work(self, short: Repl) -> None:
        async def slow(name: str, value: Any) -> Any:
            waited = asyncio.Event()
            asyncio.get_running_loop().call_later(2 * SHORT.cell_seconds, waited.set)
            await waited.wait()
            return "done"

        cell = await patiently(short.run("print(_host('x'))", slow))
        assert (cell.ending, cell.stdout, cell.error) == ("ok", "done\n", "")
        assert cell.seconds < SHORT.cell_seconds

    # ── what there is ──

    async def test_peek_shows_the_variables_asked_for_that_exist(self, repl: Repl) -> None:
        cell = await repl.run("a = {'n': [1, None]}\n_b = 2\nc = 3", peek=("a", "_b", "missing"))
        assert cell.values == {"a": {"n": [1, None]}, "_b": 2}

    async def test_what_is_not_json_is_shown_as_text(self, repl: Repl) -> None:
        for made in ("{1}", "float('nan')", "b'x'", "print", "[float('inf')]", "(1, {2})", "{1: 2}"):
            cell = await repl.run(f"v = {made}\nprint(repr(v), end='')", peek=("v",))
            assert cell.values == {"v": cell.stdout}

    async def test_an_object_with_ideas_of_its_own_comes_back_as_text(self, repl: Repl) -> None:
        code = (
            "class Evil:\n"
            "    def __reduce__(self):\n        return (print, ('unpickled',))\n"
            "    def __repr__(self):\n        return '__import__(\"os\")'\n"
            "class Worse:\n"
            "    def __repr__(self):\n        raise ValueError('no')\n"
            "v, w = Evil(), Worse()"
        )
        cell = await repl.run(code, peek=("v", "w"))
        assert (cell.error, cell.stdout) == ("", "")
        assert all(type(value) is str for value in cell.values.values())
        assert cell.names["v"] == "Evil"

    async def test_a_shown_value_that_is_too_large_is_cut(self, repl: Repl) -> None:
        size = 2 * LIMITS.message_bytes
        cell = await repl.run(f"v = 'x' * {size}\nw = 1", peek=("v", "w"))
        assert cell.ending == "ok"
        assert set(cell.values["v"]) == {"x"}
        assert 0 < len(cell.values["v"]) < size
        assert cell.values["w"] == 1

    async def test_names_are_what_code_has_made(self, fresh: Repl) -> None:
        await fresh.put("context", "given")
        cell = await fresh.run("n = 1\nt = 'x'\n_private = 1\ndef f():\n    inner = 1\nvalues = [x for x in (1, 2)]")
        made = {name: kind for name, kind in cell.names.items() if name in ("n", "t", "values", "f")}
        assert made == {"n": "int", "t": "str", "values": "list", "f": "function"}
        assert not {"_private", "context", "inner", "_host"} & set(cell.names)
        assert (await fresh.run("pass")).names == cell.names

    async def test_the_number_of_names_is_bounded(self, fresh: Repl) -> None:
        cell = await fresh.run("\n".join(f"v{i} = {i}" for i in range(3_000)))
        assert cell.ending == "ok"
        assert 0 < len(cell.names) <= 1_000

    async def test_a_variable_can_be_put_and_changed(self, repl: Repl) -> None:
        await repl.put("x", {"a": [1]})
        assert (await repl.run("x['a'].append(2)", peek=("x",))).values == {"x": {"a": [1, 2]}}
        await repl.put("x", "again")
        assert (await repl.run("pass", peek=("x",))).values == {"x": "again"}

    async def test_only_a_name_can_be_put(self, repl: Repl) -> None:
        for name in ("", "1x", "a b", "a.b", "x = 1; y", "class", "é\n"):
            with pytest.raises(UsageError):
                await repl.put(name, 1)
        assert (await repl.run("pass")).ending == "ok"

    async def test_only_json_of_a_bounded_size_can_be_put(self, repl: Repl) -> None:
        for value in ({1}, float("nan"), b"x", {1: 2}, "\ud800", "x" * 2**21, 10**400):
            with pytest.raises(UsageError):
                await repl.put("x", value)
        assert (await repl.run("pass")).ending == "ok"

    async def test_chance_follows_from_the_seed_and_the_number_of_the_cell(self, sandbox: Sandbox) -> None:
        async def rolled(seed: int) -> list[str]:
            repl = await sandbox.repl(seed=seed)
            roll = "import random\nprint(random.random(), random.randint(0, 10**9), {'a', 'b', 'c', 'd'})"
            return [(await repl.run(roll)).stdout for _ in range(3)]

        first, again, other = await rolled(1), await rolled(1), await rolled(2)
        assert first == again
        assert len({*first, *other}) == 6

    async def test_a_restart_begins_with_nothing_and_the_same_chance(self, repl: Repl) -> None:
        roll = "import random\nprint(random.random())\nx = 1"
        await repl.restart()
        first = await repl.run(roll)
        await repl.restart()
        assert (await repl.run(roll.replace("x = 1", "x"))).stdout == first.stdout
        assert "NameError" in (await repl.run("x")).error

    async def test_a_dump_has_every_variable_where_there_is_one(self, sandbox: Sandbox, fresh: Repl) -> None:
        await fresh.run("x = [1]\ndef f():\n    return x + [2]")
        state = await fresh.dump()
        if state is None:
            with pytest.raises(UsageError):
                await fresh.load(b"anything")
            return
        other = await sandbox.repl()
        await other.load(state)
        assert (await other.run("print(f())")).stdout == "[1, 2]\n"
        with pytest.raises(UsageError):
            await other.load(state[:-1] + bytes([state[-1] ^ 1]))

    # ── limits ──

    @pytest.mark.requirement("rlm.repl.sandbox")
    @pytest.mark.parametrize(
        "code",
        [
            "while True:\n    pass",
            "while True:\n    try:\n        x = [i for i in range(100)]\n    except BaseException:\n        pass",
            "import time\ntime.sleep(1000)",
            "import asyncio\nawait asyncio.sleep(1000)",
            "x = 0\nfor i in range(10**12):\n    x += i",
            "x = 3 ** 30_000\nwhile True:\n    y = x * x",
        ],
        ids=["loop", "swallowing", "sleep", "await", "iteration", "arithmetic"],
    )
    async def test_a_cell_that_does_not_end_is_ended(self, short: Repl, code: str) -> None:
        for _ in range(10):  # a busy machine may not come to its first line in so short a time
            await short.run("before = 1")
            cell = await patiently(short.run(f"print('begun')\n{code}"))
            if cell.stdout:
                break
        assert (cell.ending, cell.stdout) == ("timeout", "begun\n")
        assert f"{SHORT.cell_seconds:g} s" in cell.error
        await is_as_said(short, cell)

    @pytest.mark.requirement("rlm.repl.sandbox")
    @pytest.mark.parametrize(
        "code",
        [
            "x = 'a' * 10**11",
            "held = []\nwhile True:\n    held.append('x' * 10**6)",
            "held = []\nwhile True:\n    held.append([len(held)])",
            "held = {}\nwhile True:\n    held[len(held)] = str(len(held))",
            "x = [0] * 10**11",
        ],
        ids=["text", "texts", "lists", "dict", "list"],
    )
    async def test_a_cell_that_wants_too_much_memory_is_ended(self, fresh: Repl, code: str) -> None:
        await fresh.run("before = 1")
        cell = await patiently(fresh.run(code))
        assert cell.ending == "memory"
        assert cell.error
        await fresh.run("held = None")
        await is_as_said(fresh, cell)

    async def test_what_is_printed_beyond_the_limit_is_counted_and_dropped(self, repl: Repl) -> None:
        cell = await repl.run(f"print('é' * {3 * LIMITS.output_chars}, end='')")
        assert (cell.ending, cell.error) == ("ok", "")
        assert cell.stdout == "é" * LIMITS.output_chars
        assert cell.dropped == 2 * LIMITS.output_chars

    @pytest.mark.requirement("rlm.repl.sandbox")
    @pytest.mark.parametrize("guarded", [False, True], ids=["plain", "swallowing"])
    async def test_a_flood_of_output_ends_the_cell_and_stays_out_of_the_hosts_memory(self, guarded: bool) -> None:
        loop = "for i in range(1000):\n    "
        flood = f"{loop}try:\n        print('x' * 10**6)\n    except BaseException:\n        pass"
        async with self.opened() as repl:
            await repl.run("before = 1")
            with peak() as memory:
                cell = await patiently(repl.run(flood if guarded else f"{loop}print('x' * 10**6)"))
            assert cell.ending == "output"
            assert cell.stdout == "x" * LIMITS.output_chars
            assert cell.dropped > 0
            assert memory.grown < 100 * 2**20
            await is_as_said(repl, cell)

    @pytest.mark.parametrize("guarded", [False, True], ids=["plain", "swallowing"])
    async def test_a_flood_of_calls_to_the_host_ends_the_cell(self, repl: Repl, guarded: bool) -> None:
        asked = 0

        async def host(name: str, value: Any) -> Any:
            nonlocal asked
            asked += 1

        await repl.run("before = 1")
        guard = "while True:\n    try:\n        _host('x')\n    except BaseException:\n        pass"
        cell = await patiently(repl.run(guard if guarded else "while True:\n    _host('x')", host))
        assert (cell.ending, asked) == ("calls", LIMITS.host_calls)
        assert str(LIMITS.host_calls) in cell.error
        await is_as_said(repl, cell)

    async def test_code_that_is_larger_than_a_message_is_not_run(self, repl: Repl) -> None:
        cell = await repl.run("print('ran')\n#" + "x" * LIMITS.message_bytes)
        assert (cell.ending, cell.stdout, cell.state) == ("error", "", "kept")
        assert str(LIMITS.message_bytes) in cell.error

    # ── the life of it ──

    async def test_the_hosts_loop_goes_on_while_a_cell_runs(self, short: Repl) -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.005)
                ticks += 1

        ticker = asyncio.create_task(tick())
        cell = await patiently(short.run("while True:\n    pass"))
        ticker.cancel()
        assert cell.ending == "timeout"
        assert ticks > 1

    @pytest.mark.parametrize("guarded", [False, True], ids=["plain", "swallowing"])
    async def test_a_cancelled_caller_ends_its_cell(self, fresh: Repl, guarded: bool) -> None:
        begun = asyncio.Event()

        async def host(name: str, value: Any) -> Any:
            begun.set()

        guard = "while True:\n    try:\n        x = [i for i in range(9)]\n    except BaseException:\n        pass"
        code = f"_host('begun')\n{guard if guarded else 'while True: pass'}"
        running = asyncio.create_task(fresh.run(code, host))
        await asyncio.wait_for(begun.wait(), PATIENCE)
        await self._cancelled(running)
        assert (await patiently(fresh.run("print('on')"))).stdout == "on\n"

    async def test_a_caller_that_is_cancelled_while_the_host_answers_ends_both(self, fresh: Repl) -> None:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def host(name: str, value: Any) -> Any:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        running = asyncio.create_task(fresh.run("while True:\n    _host('x')", host))
        await asyncio.wait_for(begun.wait(), PATIENCE)
        await self._cancelled(running)
        assert ended.is_set()
        assert (await patiently(fresh.run("print('on')"))).stdout == "on\n"

    async def _cancelled(self, running: asyncio.Task[Cell]) -> None:
        running.cancel()
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(asyncio.CancelledError):
                await running

    async def test_one_cell_at_a_time(self, repl: Repl) -> None:
        begun, release = asyncio.Event(), asyncio.Event()

        async def host(name: str, value: Any) -> Any:
            begun.set()
            await release.wait()

        running = asyncio.create_task(repl.run("_host('x')\nprint('first')", host))
        await asyncio.wait_for(begun.wait(), PATIENCE)
        with pytest.raises(UsageError):
            await repl.run("print('second')")
        with pytest.raises(UsageError):
            await repl.put("x", 1)
        release.set()
        assert (await patiently(running)).stdout == "first\n"

    async def test_several_repls_run_at_once_and_do_not_see_each_other(self, sandbox: Sandbox) -> None:
        met = asyncio.Barrier(3)

        async def host(name: str, value: Any) -> Any:
            await met.wait()

        async def one(number: int) -> Cell:
            repl = await sandbox.repl()
            await repl.run(f"x = {number}")
            return await repl.run("_host('meet')\nprint(x)", host)

        cells = await asyncio.wait_for(asyncio.gather(*map(one, range(3))), PATIENCE)
        assert [cell.stdout for cell in cells] == ["0\n", "1\n", "2\n"]

    async def test_a_closed_repl_stays_closed_and_the_others_go_on(self, sandbox: Sandbox, fresh: Repl) -> None:
        other = await sandbox.repl()
        await fresh.aclose()
        await fresh.aclose()
        with pytest.raises(UsageError):
            await fresh.run("pass")
        assert (await other.run("print('on')")).stdout == "on\n"

    async def test_a_closed_sandbox_gives_no_more_repls_and_ends_those_it_gave(self) -> None:
        sandbox = self.make(LIMITS)
        repl = await sandbox.repl()
        await sandbox.aclose()
        await sandbox.aclose()
        with pytest.raises(UsageError):
            await sandbox.repl()
        with pytest.raises(UsageError):
            await repl.run("pass")


class peak:
    """How much this process has asked for at most, meanwhile. What it has in memory would be the wrong question: that
    grows whenever something old comes back from the disk."""

    grown = 0

    def __enter__(self) -> peak:
        tracemalloc.start()
        return self

    def __exit__(self, *exc: object) -> None:
        _, self.grown = tracemalloc.get_traced_memory()
        tracemalloc.stop()
