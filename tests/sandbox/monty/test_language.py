"""What Monty's Python does not have is what we know of it: no less, and no more."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from handrail.sandbox.monty import MontySandbox
from handrail.sandbox.port import Repl

MISSING = """\
This Python is a subset. It has no class inheritance, no `yield`, no `del`, no `@property`, `@classmethod` or \
`@staticmethod`, no `except*`, no `from x import *`; exceptions take one string; a generator expression \
builds its whole list at once.
Modules: asyncio, base64, bisect, collections, copy, csv, dataclasses, datetime, decimal, functools, hashlib, \
itertools, json, math, random, re, time, tomllib, typing, unicodedata. No other ones, no packages, no files, no network.
These builtins are missing: callable, compile, dir, globals, input, vars, __import__, bytearray, memoryview.
Call functions that ask outside (llm_query and the like) from plain code, loops and comprehensions; they cannot be \
called inside map(), filter(), sorted(key=…) or methods like __getitem__."""
LINES = MISSING.splitlines()
MODULES = re.findall(r"\w+", LINES[1].split(":")[1].split(". No other")[0])
BUILTINS = re.findall(r"\w+", LINES[2].split(":")[1])

ABSENT = {
    "class inheritance": "class A: pass\nclass B(A): pass",
    "`yield`": "def f(): yield 1",
    "`del`": "x = 1\ndel x",
    "`@property`": "class A:\n    @property\n    def x(self): return 1",
    "`@classmethod`": "class A:\n    @classmethod\n    def x(cls): return 1",
    "`@staticmethod`": "class A:\n    @staticmethod\n    def x(): return 1",
    "`except*`": "try: pass\nexcept* ValueError: pass",
    "`from x import *`": "from math import *",
    "exceptions take one string": "raise ValueError('a', 1)",
    "map()": "list(map(lambda i: _host('n', i), [1]))",
    "filter()": "list(filter(lambda i: _host('n', i), [1]))",
    "sorted(key=": "sorted([2, 1], key=lambda i: _host('n', i))",
    "__getitem__": "class A:\n    def __getitem__(self, i): return _host('n', i)\nA()[1]",
}


@pytest.fixture
async def repl() -> AsyncIterator[Repl]:
    async with MontySandbox() as sandbox:
        yield await sandbox.repl()


async def echo(name: str, value: Any) -> Any:
    return value


def test_it_is_four_lines() -> None:
    assert len(LINES) == 4
    assert all(words in MISSING for words in ABSENT)


async def test_what_is_said_to_be_missing_is_missing(repl: Repl) -> None:
    there = [words for words, code in ABSENT.items() if (await repl.run(code, echo)).ending == "ok"]
    there += [name for name in BUILTINS if "NameError" not in (await repl.run(f"{name}(1)")).error]

    assert there == []


async def test_what_is_said_to_be_there_is_there_and_other_modules_are_not(repl: Repl) -> None:
    missing = [name for name in MODULES if (await repl.run(f"import {name}")).ending != "ok"]
    others = "abc argparse array ast enum heapq inspect io logging operator pickle socket statistics string subprocess"
    there = [name for name in others.split() if (await repl.run(f"import {name}")).ending == "ok"]

    assert (missing, there) == ([], [])


async def test_a_generator_expression_is_a_list_at_once(repl: Repl) -> None:
    assert (await repl.run("x = (i for i in range(3))")).names == {"x": "list"}


@pytest.mark.parametrize("name", ["id", "type", "list", "max", "object", "format", "hash", "next", "set"])
async def test_a_variable_of_a_comprehension_may_be_called_like_a_builtin(repl: Repl, name: str) -> None:
    made = await repl.run(f"print([{name} for {name} in range(3)], {{{name}: 1 for {name} in 'a'}})")
    still = await repl.run(f"print({name})")

    assert (made.stdout, made.names) == ("[0, 1, 2] {'a': 1}\n", {})
    assert "built-in" in still.stdout or "class" in still.stdout
