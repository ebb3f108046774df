"""What came of one long run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from tests.processes import children

ROOT = Path(__file__).parent.parent


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
