"""Run a command that fetches something: show its progress, and give up when it says nothing for too long.

A set-up step that reaches for a registry nobody answers at waits for ever without a message. Here the limit is one of
silence, not of total time: a slow download goes on as long as something arrives. Uses only the standard library, for
it also runs before anything is installed (`scripts/run_watched.py`).
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from handrail.core.child_process import kill_and_reap

SILENCE = 60.0
"""Seconds without any output after which a command is given up."""

PIP_INSTALLS = "Installing collected packages"
"""pip has fetched everything when it says this."""
_LINE_END = re.compile(r"[\r\n]+")
_NOISE = re.compile(
    r"WARNING: (Location .* is ignored|Running pip as the 'root' user)|\[notice\]|Looking in (links|indexes)"
)
"""What pip says about the machine's configuration, once for each package."""
_ERROR = re.compile(r"(npm error|npm ERR!|error:|ERROR|E:|Err:)\s", re.IGNORECASE)
_TAIL = 60
"""The number of last lines that are kept, to say why a command failed."""


class CommandSilent(Exception):
    """The command was ended because it said nothing for too long."""


@dataclass(frozen=True, slots=True)
class CommandExit:
    """How a command ended, and its last lines."""

    code: int
    lines: tuple[str, ...]

    @property
    def reason(self) -> str:
        """What it said about its failure: the first of its lines that name an error, or else its last ones."""
        errors = [line for line in self.lines if _ERROR.match(line.lstrip())]
        return "\n".join(errors[:8] or self.lines[-8:]) or f"it ended with code {self.code} and said nothing"


def run_watched(
    command: Sequence[str],
    what: str,
    *,
    silence: float = SILENCE,
    show: Callable[[str], None] = lambda line: None,
    local_after: str = "",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> CommandExit:
    """Run a command until it ends. `what` names what it fetches, for the message; `show` gets each line it says.

    From the line on that contains `local_after`, it only works on this machine, and may be silent: unpacking and
    installing take as long as they take.

    Raises:
        CommandSilent: It said nothing for so many seconds. It was ended, with every process that it started.
    """
    process = subprocess.Popen(
        list(command),
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    pieces = _pieces_of(process)
    lines: deque[str] = deque(maxlen=_TAIL)
    limit: float | None = silence
    rest = ""
    try:
        while piece := pieces.get(timeout=limit):
            *whole, rest = _LINE_END.split(rest + piece.decode(errors="replace"))
            for line in filter(None, map(str.rstrip, whole)):
                if local_after and local_after in line:
                    limit = None
                if not _NOISE.search(line):
                    lines.append(line)
                    show(line)
        if rest.strip():
            lines.append(rest.strip())
            show(rest.strip())
        return CommandExit(process.wait(), tuple(lines))
    except queue.Empty:
        raise CommandSilent(
            f"gave up fetching {what}: nothing came for {silence:g} s; check that this machine reaches its package "
            "registry, and try again"
        ) from None
    finally:
        kill_and_reap(process)


def run_pip(
    arguments: Sequence[str],
    what: str,
    *,
    silence: float = SILENCE,
    show: Callable[[str], None] = lambda line: None,
    cwd: Path | None = None,
) -> CommandExit:
    """Run `pip <arguments>` of this interpreter as `run_watched` does.

    Raises:
        CommandSilent: It said nothing for so many seconds, or ten times as many where pip is older than 24.1: that
            one says nothing while it downloads a file.
    """
    tells = _pip_version() >= (24, 1)
    bar = ["--progress-bar", "raw"] if tells else []
    # Without -P a `pip.py` in the current folder would be run in its place.
    command = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments, *bar]
    return run_watched(
        command, what, silence=silence if tells else 10 * silence, show=show, local_after=PIP_INSTALLS, cwd=cwd
    )


def _pip_version() -> tuple[int, ...]:
    """Its first two numbers; none where there is no pip, which pip's own message then says."""
    try:
        return tuple(int(part) for part in version("pip").split(".")[:2])
    except PackageNotFoundError:
        return ()


def _pieces_of(process: subprocess.Popen[bytes]) -> queue.Queue[bytes]:
    """What a process says, as it comes; an empty piece is its end. A thread reads: not every system polls pipes."""
    pieces: queue.Queue[bytes] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        with process.stdout as pipe, suppress(OSError, ValueError):
            while piece := os.read(pipe.fileno(), 65_536):
                pieces.put(piece)
        pieces.put(b"")

    threading.Thread(target=read, daemon=True, name="handrail-watched-command").start()
    return pieces


_EVERY = 10.0
"""Seconds between two lines where nobody watches."""


class ProgressLine:
    """Use it with `with`; pass its `show` as the one that gets each line."""

    def __init__(
        self, out: TextIO | None = None, *, prefix: str = "  ", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._out = sys.stdout if out is None else out
        self._prefix = prefix
        self._clock = clock
        self._shown_at = clock()

    def show(self, line: str) -> None:
        text = f"{self._prefix}{line.strip()}"
        if self._out.isatty():
            width = shutil.get_terminal_size().columns - 1
            self._out.write(f"\r\x1b[K{text[:width]}")
            self._out.flush()
        elif self._clock() - self._shown_at >= _EVERY:
            self._shown_at = self._clock()
            self._out.write(f"{text[:100]}\n")
            self._out.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._out.isatty():
            self._out.write("\r\x1b[K")
            self._out.flush()
