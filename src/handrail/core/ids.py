"""Identifiers, made in one place so that tests can give their own."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

NewId = Callable[[str], str]

_chance: list[str] = []
"""Drawn ahead, as to ask the system takes longer than all the rest of an id. A forked child draws its own."""
os.register_at_fork(after_in_child=_chance.clear)


def new_id(kind: str) -> str:
    """`call_…`, `run_…`: the kind, then 48 bits of time and 80 of chance, so that ids sort by age."""
    try:
        chance = _chance.pop()
    except IndexError:
        drawn = os.urandom(640).hex()
        chance, *others = (drawn[at : at + 20] for at in range(0, len(drawn), 20))
        _chance.extend(others)
    return f"{kind}_{int(time.time() * 1000):012x}{chance}"


def nested_id(caller: str, key: str) -> str:
    """The id of what one call, or one run, has done under a key: the same whenever it is asked for again.

    A dot in the key, as models write into the ids of calls, is not the dot between the two.
    """
    if "." in key or "~" in key:
        key = key.replace("~", "~0").replace(".", "~1")
    return f"{caller}.{key}"


def run_and_above(run: str) -> Iterator[str]:
    """The name of a run, then those that the runs above it have if its name was made by `nested_id`."""
    while run:
        yield run
        run = run.rpartition(".")[0]


_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[!-~]{1,64})?")


def traceparent(said: Any) -> str | None:
    """What somebody outside sent as a `traceparent`, if it is one. Anything else begins a trace of its own."""
    return said if isinstance(said, str) and _PARENT.fullmatch(said) else None


def trace_id(parent: str | None) -> str | None:
    """The id that everything of one trace has in common."""
    return None if parent is None else parent[3:35]
