"""Runs programs in jails for these tests, and attacks in a program."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from handrail.sandbox.jail import Jail, lockdown_filter, seccomp_lock
from tests.sandbox.attacks.os_attacks import Attack, Facts

SECONDS = 60.0
"""No program here may take longer, whatever happens."""

PROBER = """
import json, sys
sent = json.load(sys.stdin)
kit = {}
exec(sent['kit'], kit)
if sent['program']:
    kit['lock'](bytes.fromhex(sent['program']))
for name, code in sent['attacks']:
    space = {'host': sent['host'], '__name__': '__main__'}
    try:
        exec(compile(code, name, 'exec'), space)
        said = repr(space['got']) if space['got'] else ''
    except (OSError, MemoryError, RuntimeError) as error:
        said = ''
    except BaseException as error:
        said = f'is no attack: {error!r}'
    print(json.dumps([name, said]), flush=True)
"""


@dataclass(frozen=True, slots=True)
class JailedProgramResult:
    code: int
    output: str
    errors: str


async def run(jail: Jail, program: str, sent: str = "", **options: Any) -> JailedProgramResult:
    """A Python program in a jail, to its end."""
    stdin, feed = os.pipe()
    out, stdout = os.pipe()
    err, stderr = os.pipe()
    fcntl.fcntl(feed, fcntl.F_SETPIPE_SZ, 2**20)
    os.write(feed, sent.encode())
    os.close(feed)
    jailed = jail.spawn([jail.python, "-I", "-S", "-c", program], stdin=stdin, stdout=stdout, stderr=stderr, **options)
    for descriptor in (stdin, stdout, stderr):
        os.close(descriptor)
    try:
        async with asyncio.timeout(SECONDS):
            output, errors = await asyncio.gather(asyncio.to_thread(_read, out), asyncio.to_thread(_read, err))
            return JailedProgramResult(await jailed.wait(), output, errors)
    finally:
        jailed.close()


async def attack(jail: Jail, attacks: Iterable[Attack], facts: Facts, *, locked: bool) -> dict[str, str]:
    """What each attack got, by its name; one that ended the program is not there."""
    program = lockdown_filter().hex() if locked else ""
    sent = {
        "kit": seccomp_lock.SOURCE,
        "program": program,
        "host": facts,
        "attacks": [(a.name, a.code) for a in attacks],
    }
    ran = await run(jail, PROBER, json.dumps(sent))
    return dict(json.loads(line) for line in ran.output.splitlines())


def _read(descriptor: int) -> str:
    with open(descriptor, "rb") as file:
        return file.read(2**20).decode(errors="replace")
