"""What came of one long run."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.processes import children

ROOT = Path(__file__).parent.parent
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Verdict:
    ok: bool
    figures: str
    """In one line, for the table."""
    details: str = ""
    """What is wrong, in full."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a process has of the machine, to compare before and after."""

    files: int
    threads: int
    children: int

    @classmethod
    def now(cls) -> Holdings:
        """Where there is no /proc, files and children are not counted."""
        proc = Path("/proc/self")
        files = len(os.listdir(proc / "fd")) if proc.exists() else 0
        return cls(files, threading.active_count(), len(children()))


def resident() -> float:
    """Megabytes of memory that this process holds; 0 where nobody knows."""
    status = Path("/proc/self/status")
    found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return 0.0 if found is None else int(found[1]) / 1024


@dataclass(frozen=True, slots=True)
class Growth:
    """What this process held before a run, what it holds after it, and by how many megabytes it has grown."""

    before: Holdings
    after: Holdings
    megabytes: float


def run_and_measure(
    run: Callable[[int, int, Path], Coroutine[Any, Any, T]], calls: int, seed: int, *, warm_up: int
) -> tuple[T, Growth]:
    """Do a run of so many calls in a new folder, after a shorter one that loads and opens what stays open."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(warm_up, seed, Path(folder)))
    gc.collect()
    before, weight = Holdings.now(), resident()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(run(calls, seed, Path(folder)))
    gc.collect()
    return found, Growth(before, Holdings.now(), resident() - weight)


def verdict_on_kills(
    calls: int, outcomes: Counter[str], lies: list[str], kills: int, left: set[str], growth: Growth, most: float
) -> Verdict:
    """Whether nothing untrue was answered while processes were killed, and nothing is left of the calls."""
    before, after = growth.before, growth.after
    ok = not lies and not left and after == before and growth.megabytes <= most
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    figures = (
        f"{calls} calls, {kills} kills from outside: {counts}; {len(lies)} untrue; {growth.megabytes:+.0f} MB,"
        f" {after.files - before.files:+d} files, {after.children - before.children:+d} processes, {len(left)} tasks"
    )
    return Verdict(ok, figures, "" if ok else f"before {before}\nafter {after}\n{left}\n" + "\n".join(lies[:20]))


def command(*words: str, **environment: str) -> Verdict:
    """A program of this repository: well if it says 0, with its last line as the figures."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return Verdict(
        done.returncode == 0, lines[-1] if lines else "", "" if done.returncode == 0 else done.stdout[-8000:]
    )
