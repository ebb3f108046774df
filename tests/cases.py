"""Many cases in one test, where a test for each would cost more than what it looks at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def case(name: object) -> Iterator[None]:
    """Whatever fails within says in which case."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the case {name!r}")
        raise
