"""The variables of a REPL as bytes, which are loaded only if they are ours and as we made them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings, strategies as st

from handrail.core.errors import UsageError
from handrail.sandbox.monty import MontySandbox
from handrail.sandbox.monty.dumps import MontyState, seal_dump, unseal_dump
from tests.examples import examples

KEY = b"k" * 32
STATE = MontyState(heap=b"heap" * 20, version="1", feeds=3, cells={1: 1}, number=1, names={"x": "int"})


@pytest.fixture
async def sandbox() -> AsyncIterator[MontySandbox]:
    async with MontySandbox(key=KEY) as sandbox:
        yield sandbox


async def test_a_dump_is_loaded_by_another_process_that_has_the_key(sandbox: MontySandbox) -> None:
    repl = await sandbox.repl(seed=3)
    await repl.put("context", "given")
    await repl.run("import re\nclass P:\n    def __init__(self): self.n = [1]\np = P()\ndef f(): return p.n + [2]")
    state = await repl.dump()
    rolled = await repl.run("import random\nprint(random.random())")

    async with MontySandbox(key=KEY) as other:
        again = await other.repl(seed=3)
        assert state is not None
        await again.load(state)
        cell = await again.run("import random\nprint(random.random())")
        use = await again.run("print(f(), context, bool(re.match('a', 'ab')))\n1/0")

    assert (cell.stdout, cell.names) == (rolled.stdout, rolled.names)
    assert use.stdout == "[1, 2] given True\n"
    assert '<cell 3>", line 2' in use.error


async def test_what_was_loaded_takes_the_place_of_everything(sandbox: MontySandbox) -> None:
    repl = await sandbox.repl()
    await repl.run("x = 1")
    state = await repl.dump()
    await repl.run("x, y = 2, 2")
    assert state is not None
    await repl.load(state)

    cell = await repl.run("print(x)")

    assert (cell.stdout, cell.names) == ("1\n", {"x": "int"})


async def test_a_dump_under_another_key_is_refused_and_the_variables_stay(sandbox: MontySandbox) -> None:
    repl = await sandbox.repl()
    await repl.run("x = 1")
    async with MontySandbox() as stranger:
        foreign = await (await stranger.repl()).dump()
    assert foreign is not None

    with pytest.raises(UsageError, match="another key"):
        await repl.load(foreign)

    assert (await repl.run("print(x)")).stdout == "1\n"


async def test_a_dump_of_another_monty_is_refused(sandbox: MontySandbox) -> None:
    with pytest.raises(UsageError, match="made by Monty 1;"):
        await (await sandbox.repl()).load(seal_dump(STATE, KEY))


@settings(max_examples=examples(200))
@given(at=st.integers(min_value=0), flip=st.integers(1, 255))
def test_any_changed_byte_is_refused(at: int, flip: int) -> None:
    sealed = bytearray(seal_dump(STATE, KEY))
    sealed[at % len(sealed)] ^= flip

    with pytest.raises(UsageError):
        unseal_dump(bytes(sealed), KEY)


@given(cut=st.integers(min_value=1), garbage=st.binary())
def test_no_part_of_a_dump_and_no_other_bytes_are_taken_for_one(cut: int, garbage: bytes) -> None:
    sealed = seal_dump(STATE, KEY)

    for bad in (sealed[: -(cut % len(sealed) or 1)], sealed + b"x", garbage):
        with pytest.raises(UsageError):
            unseal_dump(bad, KEY)
    assert unseal_dump(sealed, KEY) == STATE


async def test_whatever_comes_right_after_a_cell_finds_it_whole(sandbox: MontySandbox) -> None:
    """After a cell its variables are kept aside while nobody waits: that must not get in anybody's way."""
    repl = await sandbox.repl()
    await repl.run("x = 'a' * 8_000_000")
    state = await repl.dump()
    assert state is not None
    for _ in range(3):
        await repl.run("x = 'b' * 8_000_000")
        await repl.load(state)
        loaded = await repl.run("print(x[0])")
        await repl.restart()
        fresh = await repl.run("y = 'c' * 8_000_000")
        await repl.put("z", "d")
        put = await repl.run("print(y[0], z)")
        assert (loaded.stdout, fresh.ending, put.stdout) == ("a\n", "ok", "c d\n")
    await repl.run("x = 'e' * 8_000_000")
    await repl.aclose()
