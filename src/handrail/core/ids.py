"""Identifiers, made in one place so that tests can give their own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

NewId = Callable[[str], str]


def new_id(kind: str) -> str:
    """`call_…`, `run_…`: the kind, then 48 bits of time and 80 of chance, so that ids sort by age."""
    return f"{kind}_{int(time.time() * 1000):012x}{os.urandom(10).hex()}"


def nested_id(caller: str, key: str) -> str:
    """The id of what one call, or one run, has done under a key: the same whenever it is asked for again."""
    return f"{caller}.{key}"
