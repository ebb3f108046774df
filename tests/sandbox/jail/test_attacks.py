"""Nothing in the corpus of attacks gets out of a jail, or more than it was given."""

from __future__ import annotations

import dataclasses

import pytest

from handrail.sandbox.jail import Jail, unavailable
from tests.sandbox.attacks import os as attacks
from tests.sandbox.attacks.os import Attack, Facts
from tests.sandbox.jail.conftest import LIMITS
from tests.sandbox.jail.jailing import attack

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


@pytest.mark.requirement("abstractllm.sandbox")
async def test_no_attack_gets_anything_from_its_first_instruction_on(facts: Facts) -> None:
    got = await attack(Jail(LIMITS), attacks.CALM, facts, locked=False)
    assert got == dict.fromkeys((one.name for one in attacks.CALM), "")


@pytest.mark.requirement("abstractllm.sandbox")
async def test_no_attack_gets_anything_once_the_program_is_locked(facts: Facts) -> None:
    those = (*attacks.CALM, *attacks.AFTER_LOCK)
    got = await attack(Jail(LIMITS), those, facts, locked=True)
    assert got == dict.fromkeys((one.name for one in those), "")


@pytest.mark.parametrize("one", attacks.ENDS, ids=lambda one: one.name)
async def test_an_attack_that_ends_its_program_ends_nothing_else(facts: Facts, one: Attack) -> None:
    limits = dataclasses.replace(LIMITS, cpu_seconds=1)
    assert await attack(Jail(limits), [one], facts, locked=True) == {}


async def test_the_attacks_have_teeth_where_the_filter_has_none(facts: Facts) -> None:
    """Without the lock a program may fork: the attacks that the lock holds do get something then."""
    got = await attack(Jail(LIMITS), attacks.AFTER_LOCK[:2], facts, locked=False)
    assert all(got.values())
    assert len(got) == 2


async def test_threads_are_still_there_once_the_program_is_locked(facts: Facts) -> None:
    code = "import threading, asyncio\none = threading.Thread(target=int)\none.start()\none.join()\ngot = 'ran'\n"
    code += "asyncio.run(asyncio.sleep(0))"
    assert await attack(Jail(LIMITS), [Attack("a thread", code)], facts, locked=True) == {"a thread": "'ran'"}
