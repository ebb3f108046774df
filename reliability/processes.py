"""Processes that are forked from one which has imported everything, so that hundreds of them cost seconds.

Each is a process of its own with its own memory, and is killed with SIGKILL; nothing of it survives but its files.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from msgspec import Struct

from handrail.core.child_process import signal_group
from reliability.moments import be_mortal

PRELOADED = ("reliability.preloaded",)
_PATIENCE = 60.0


class Start(Struct, frozen=True):
    """How a process begins."""

    role: str
    folder: Path
    environ: dict[str, str]
    last_step: int | None = None
    """The step at which it is killed."""


def fork_context(modules: Iterable[str] = ()) -> ForkServerContext:
    """Where processes are forked from. Modules that are named before the first one starts are imported once for all."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED, *modules])
    return context


class MortalProcess:
    """One process of a row."""

    def __init__(
        self,
        context: ForkServerContext,
        start: Start,
        target: Callable[..., Any],
        *arguments: Any,
        wire: socket.socket | None = None,
    ) -> None:
        """`wire` becomes its standard input and output."""
        self.role = start.role
        self._process: ForkServerProcess = context.Process(
            target=_run, args=(start, wire, target, arguments), daemon=True, name=start.role
        )
        self._process.start()

    def kill(self) -> None:
        """Kill it with SIGKILL, and return when it is gone."""
        pid = self._process.pid
        if pid is not None and self._process.is_alive():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.join(_PATIENCE)

    def end(self) -> None:
        """Kill it and what it started that is still there, as Claude Code may be."""
        self.kill()
        if self._process.pid is not None:
            signal_group(self._process.pid, signal.SIGKILL)

    def terminate(self) -> None:
        self._process.terminate()

    def wait(self, seconds: float = _PATIENCE) -> bool:
        """Whether it ended in time, by itself or not."""
        self._process.join(seconds)
        return not self._process.is_alive()

    @property
    def alive(self) -> bool:
        return self._process.is_alive()


def _run(start: Start, wire: socket.socket | None, target: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    os.setsid()
    os.environ.update(start.environ)
    os.chdir(start.folder)
    errors = os.open(start.folder / f"{start.role}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(errors, 2)
    if wire is None:
        os.dup2(errors, 1)
    else:
        os.dup2(wire.fileno(), 0)
        os.dup2(wire.fileno(), 1)
        wire.close()
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    be_mortal(start.folder / f"{start.role}.steps", start.last_step)
    target(*arguments)


def handrail(*words: str) -> None:
    """The command line, as `handrail WORDS…`."""
    from handrail.cli import main

    sys.argv = ["handrail", *words]
    sys.exit(main())
