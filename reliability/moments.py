"""A moment at which a process is killed: at a step of its own, or when a message passes between two processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct


class Moment(Struct, frozen=True):
    """Where one process is killed."""

    victim: str
    """The process that dies."""
    place: str
    """The process or the wire whose steps are counted."""
    number: int
    """Which of the steps there, from 0."""
    what: str = ""
    """The step in words."""

    def __str__(self) -> str:
        return f"{self.victim} killed at step {self.number} of {self.place}: {self.what}"


class ProcessSteps:
    """The steps of this process. Each is noted on disk, and one of them may be its last."""

    def __init__(self, path: Path, last: int | None) -> None:
        self._path = path
        self._last = last
        self._count = 0

    def step(self, what: str) -> None:
        note(self._path, what)
        if self._count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)
        self._count += 1


_steps: ProcessSteps | None = None


def step(what: str) -> None:
    """A place in a program at which it may be killed. It does nothing in a process that no row has started."""
    if _steps is not None:
        _steps.step(what)


def note(path: Path, line: str) -> None:
    """A line that is in the file when this returns, whoever is killed then."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def be_mortal(path: Path, last: int | None) -> None:
    """Count the steps of this process from here on, and before and after each commit to a journal as two more."""
    global _steps
    _steps = ProcessSteps(path, last)
    from handrail.journal.writer import JournalWriter

    commit: Callable[..., None] = JournalWriter.commit
    checkpoint: Callable[..., Any] = JournalWriter.checkpoint

    def mortal_commit(self: JournalWriter, drafts: Sequence[Any], durable: bool) -> None:
        entries = ", ".join(each.head["type"] for each in drafts)
        if not entries:
            return commit(self, drafts, durable)
        step(f"before the journal has {entries}")
        commit(self, drafts, durable)
        step(f"after the journal has {entries}")

    def mortal_checkpoint(self: JournalWriter) -> Any:
        step("before the journal is signed")
        return checkpoint(self)

    JournalWriter.commit = mortal_commit  # type: ignore[method-assign]
    JournalWriter.checkpoint = mortal_checkpoint  # type: ignore[method-assign]
