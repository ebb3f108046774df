"""What a jail is, and how a program is started in one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from handrail.core.errors import SandboxUnavailable, UsageError
from handrail.sandbox.jail.filters import base_filter
from handrail.sandbox.jail.launch import JailLimits, launch, mounts, python, python_files
from handrail.sandbox.jail.probe import unavailable
from handrail.sandbox.jail.process import JailedProcess
from handrail.sandbox.port import ReplLimits

INTERPRETER = 64 * 2**20
"""Bytes that an interpreter takes before it has done anything, and a little more."""


class Jail:
    """Programs in it see the host's libraries, its Python, and the files that are named; they cannot write to any.

    Raises:
        MissingExtra: There is no pyseccomp.
        SandboxUnavailable: This machine cannot have a jail, with what to do about it.
        UsageError: A file that was named is not there.
    """

    def __init__(
        self, limits: JailLimits = JailLimits(), *, readable: tuple[Path, ...] = (), python: bool = True
    ) -> None:
        base_filter()
        why = unavailable()
        if why is not None:
            raise SandboxUnavailable(why)
        self.limits = limits
        self._bwrap = shutil.which("bwrap") or "bwrap"
        missing = [str(path) for path in readable if not path.exists()]
        if missing:
            raise UsageError(f"nothing can be read at {', '.join(missing)}; name files and folders that are there")
        named = (path.absolute() for path in readable)
        self._mounts = mounts((*named, *(python_files() if python else ())), limits.disk_bytes)

    @classmethod
    def for_repl(cls, limits: ReplLimits) -> Self:
        return cls(
            JailLimits(
                memory_bytes=limits.memory_bytes + INTERPRETER,
                disk_bytes=limits.disk_bytes,
                file_bytes=limits.disk_bytes,
            )
        )

    @property
    def python(self) -> str:
        """The interpreter, as the jail knows it. Start it with `-I`, and `-S` unless it needs its packages."""
        return str(python())

    def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
    ) -> JailedProcess:
        """Start a program. It inherits the descriptors that are named here, and nothing else of this process.

        It dies with the thread that calls this; should that die while the jail is being built, then not before it
        notices that its descriptors are closed at the other end. What it prints is for the caller to bound.
        """
        return launch(
            self._bwrap,
            argv,
            self._mounts,
            self.limits,
            env=env or {},
            pass_fds=pass_fds,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )
