"""What a target promises: only its own errors come out, and nothing goes on for ever."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from hypothesis.strategies import SearchStrategy

SECONDS = 10.0
"""Of processor time for one input. None of them is large."""


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    inputs: SearchStrategy[Any]
    law: Callable[[Any], None]
    """Raises anything at all if the input breaks what is promised."""
    cost: int = 1
    """How many of the others' inputs take as long as one of these."""


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for one input."""
    folder = Path(tempfile.mkdtemp(prefix="handrail-fuzz-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


class Hangs(Exception):
    """An input took longer than any should."""


def outcome(work: Callable[[], Any], *errors: type[Exception]) -> Any:
    """What comes of it, or which of its own errors; any other goes through."""
    try:
        return work()
    except errors as error:
        return type(error).__name__, str(error)


@contextmanager
def on_time(seconds: float = SECONDS) -> Iterator[None]:
    """Processor time, so that a busy machine is not a slow program; and not the alarm, which pytest's timeouts use."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hangs(f"it was not done after {seconds:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
