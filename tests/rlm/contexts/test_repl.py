"""A held context from inside real REPLs: the same code reads it in each."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handrail.core.errors import MissingExtra, SandboxUnavailable
from handrail.rlm.contexts import HeldContext, load
from handrail.sandbox.port import Repl, create_sandbox

KINDS = ["monty", "process", "os"]


@pytest.fixture(params=KINDS)
async def repl(request: pytest.FixtureRequest) -> AsyncIterator[Repl]:
    try:
        sandbox = create_sandbox(request.param)
    except (MissingExtra, SandboxUnavailable) as error:
        pytest.skip(str(error))
    async with sandbox:
        made = await sandbox.repl()
        yield made
        await made.aclose()


async def _bound(repl: Repl, held: HeldContext) -> None:
    for name, value in held.bind.items():
        await repl.put(name, value)
    if held.prelude:
        cell = await repl.run(held.prelude, held.serve)
        assert cell.ending == "ok", cell.error


async def _run(repl: Repl, held: HeldContext, code: str) -> str:
    cell = await repl.run(code, held.serve)
    assert cell.error == ""
    return cell.stdout


async def test_a_held_text_is_read_by_its_methods(repl: Repl) -> None:
    text = "".join(f"line {number} ä\n" for number in range(1000))
    async with await load(text, most=100) as held:
        await _bound(repl, held)
        code = """
print(context.size, context.line_count, context)
print(repr(context.read(5000, 12)))
print(context.lines(998, 9))
print(context.count("9 ä"))
for hit in context.search("^line 77[12]", around=0):
    print(hit["at"], hit["line"], hit["text"])
pieces = context.chunks(4000, overlap=100)
print(pieces)
print("".join([context.read(start, 3900) for start, end in pieces]) == context.read(0, context.size))
"""
        assert await _run(repl, held, code) == (
            f"{len(text)} 1001 <{len(text)} characters, held outside of the REPL; use .read(start, length)>\n"
            f"{text[5000:5012]!r}\n"
            "['line 998 ä', 'line 999 ä', '']\n"
            "100\n"
            f"{text.index('line 771')} 771 line 771\n{text.index('line 772')} 772 line 772\n"
            "[[0, 4000], [3900, 7900], [7800, 10890]]\n"
            "True\n"
        )


async def test_a_directory_is_read_by_its_methods(repl: Repl, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha")
    (tmp_path / "ö.txt").write_text("omega\nneedle")
    async with await load(tmp_path) as held:
        await _bound(repl, held)
        code = """
print(context.files)
print(context.open("ö.txt").lines(1, 1))
print(context.search("n(ee)dle", around=0))
try:
    context.open("../secret")
except FileNotFoundError as error:
    print(error)
"""
        assert await _run(repl, held, code) == (
            "[{'name': 'a.txt', 'size': 5}, {'name': 'ö.txt', 'size': 12}]\n"
            "['needle']\n"
            "[{'name': 'ö.txt', 'at': 6, 'line': 1, 'text': 'needle'}]\n"
            "there is no file '../secret'; `files` lists them all\n"
        )


async def test_slices_work_where_the_interpreter_can_have_them_and_else_say_what_to_do(repl: Repl) -> None:
    async with await load("0123456789" * 20, most=100) as held:
        await _bound(repl, held)
        if repl.kind == "monty":
            cell = await repl.run("print(context[3:7])", held.serve)
            assert "use .read(start, length)" in cell.error
        else:
            code = "print(len(context), context[3:7], context[-1], context[-3:], '890' in context, 'x' in context)"
            assert await _run(repl, held, code) == "200 3456 9 789 True False\n"


async def test_wrong_chunks_are_refused(repl: Repl) -> None:
    async with await load("0123456789" * 20, most=100) as held:
        await _bound(repl, held)
        cell = await repl.run("context.chunks(10, 10)", held.serve)
        assert "ValueError: chunks: size must be at least 1" in cell.error


async def test_a_needle_in_ten_million_characters_costs_the_host_next_to_nothing(repl: Repl, tmp_path: Path) -> None:
    path = tmp_path / "hay.txt"
    line = "hay and ä straw, nothing else to see\n"
    with path.open("w", encoding="utf-8") as file:
        for number in range(300):
            file.write(line * 1000)
            if number == 271:
                file.write("the needle is 48151623\n")
    tracemalloc.start()
    try:
        async with await load(path) as held:
            assert "11,100,023 characters" in held.description
            await _bound(repl, held)
            code = """
hit = context.search(r"needle is (\\d+)", around=9)[0]
print(hit["line"], context.lines(hit["line"], 1)[0])
print(context.read(hit["at"], 18))
"""
            assert await _run(repl, held, code) == "272000 the needle is 48151623\nneedle is 48151623\n"
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8_000_000, f"{most:,} bytes on {sys.platform}"
