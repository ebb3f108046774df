"""Nothing in the corpus of attacks gets out of a jail, or more than it was given."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from handrail.sandbox.jail import Jail, unavailable
from tests.sandbox.attacks import os_attacks as attacks
from tests.sandbox.attacks.os_attacks import Attack, Facts
from tests.sandbox.jail.conftest import LIMITS
from tests.sandbox.jail.jail_programs import attack

needs_jail = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

HARMLESS = {"a file of the host", "the host's loopback"}
"""They read what any program may."""


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc to tell a jail by")
def test_outside_of_a_jail_an_attack_ends_before_it_begins(tmp_path: Path) -> None:
    """Shown with a program that does no harm: no real one may ever be run to see what it does."""
    mark = tmp_path / "mark"
    program = attacks.GUARD + f"open({str(mark)!r}, 'w')"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr, mark.exists()) == (1, "this is no jail: nothing was tried\n", False)
    every = (*attacks.CALM, *attacks.AFTER_LOCK, *attacks.ENDS)
    assert {one.name for one in every if not one.code.startswith(attacks.GUARD)} == HARMLESS


@needs_jail
@pytest.mark.requirement("abstractllm.sandbox")
async def test_no_attack_gets_anything_from_its_first_instruction_on(facts: Facts) -> None:
    got = await attack(Jail(LIMITS), attacks.CALM, facts, locked=False)
    assert got == dict.fromkeys((one.name for one in attacks.CALM), "")


@needs_jail
@pytest.mark.requirement("abstractllm.sandbox")
async def test_no_attack_gets_anything_once_the_program_is_locked(facts: Facts) -> None:
    those = (*attacks.CALM, *attacks.AFTER_LOCK)
    got = await attack(Jail(LIMITS), those, facts, locked=True)
    assert got == dict.fromkeys((one.name for one in those), "")


@needs_jail
@pytest.mark.parametrize("one", attacks.ENDS, ids=lambda one: one.name)
async def test_an_attack_that_ends_its_program_ends_nothing_else(facts: Facts, one: Attack) -> None:
    limits = dataclasses.replace(LIMITS, cpu_seconds=1)
    assert await attack(Jail(limits), [one], facts, locked=True) == {}


@needs_jail
async def test_the_attacks_have_teeth_where_the_filter_has_none(facts: Facts) -> None:
    """Without the lock a program may fork: the attacks that the lock holds do get something then."""
    got = await attack(Jail(LIMITS), attacks.AFTER_LOCK[:2], facts, locked=False)
    assert all(got.values())
    assert len(got) == 2


@needs_jail
async def test_threads_are_still_there_once_the_program_is_locked(facts: Facts) -> None:
    code = "import threading, asyncio\none = threading.Thread(target=int)\none.start()\none.join()\ngot = 'ran'\n"
    code += "asyncio.run(asyncio.sleep(0))"
    assert await attack(Jail(LIMITS), [Attack("a thread", code)], facts, locked=True) == {"a thread": "'ran'"}
