"""Whether this machine can have a jail; if not, why not, and what to do about it."""

from __future__ import annotations

import functools
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

from handrail.core.errors import UsageError
from handrail.sandbox.jail.filters import base_filter
from handrail.sandbox.jail.launch import JailLimits, launch, mounts, python, python_files

SECONDS = 20.0
"""The time that the trial may take."""

SWITCHES = (
    # file below /proc/sys                            when it says   what to do
    ("kernel/unprivileged_userns_clone", "0", "run: sysctl -w kernel.unprivileged_userns_clone=1"),
    ("user/max_user_namespaces", "0", "run: sysctl -w user.max_user_namespaces=10000"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "run: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give bwrap an AppArmor profile",
    ),
)
ELSE = "inside a container, let it make user namespaces and mount /proc; or choose the sandbox 'monty'"


@functools.cache
def unavailable() -> str | None:
    """Why there can be no jail here; None if there can. It is tried once in a process, which takes tens of
    milliseconds."""
    if sys.platform != "linux":
        return f"the os sandbox needs Linux, and this is {sys.platform}; choose the sandbox 'monty'"
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return "bubblewrap was not found; install it (on Debian and Ubuntu: apt install bubblewrap)"
    try:
        base_filter()
        python()
    except UsageError as error:
        return str(error)
    try:
        if "--disable-userns" not in _help(bwrap):
            return f"{bwrap} is too old; bubblewrap 0.8 or later is needed"
        words = _trial(bwrap)
    except (OSError, subprocess.SubprocessError) as error:
        words = str(error)
    return None if words is None else f"bubblewrap did not start: {words}; {advice()}"


def advice(settings: Path = Path("/proc/sys")) -> str:
    """What keeps a process here from having namespaces of its own, as far as the kernel's settings tell."""
    found = [todo for name, bad, todo in SWITCHES if _read(settings / name) == bad]
    return "; ".join(found) or ELSE


def _trial(bwrap: str) -> str | None:
    reader, writer = os.pipe()
    with open(reader, "rb") as words:
        try:
            jailed = launch(
                bwrap,
                [str(python()), "-I", "-S", "-c", ""],
                mounts(python_files(), 2**20),
                JailLimits(cpu_seconds=10),
                env={},
                stderr=writer,
            )
        finally:
            os.close(writer)
        try:
            said = _until_closed(words.fileno())
        finally:
            jailed.close()
    if jailed.returncode == 0:
        return None
    return said.decode(errors="replace").strip().replace("\n", " ")[-500:] or f"it ended with {jailed.returncode}"


def _until_closed(descriptor: int) -> bytes:
    said, until = b"", time.monotonic() + SECONDS
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while len(said) < 10_000 and poll.poll(max(0.0, until - time.monotonic()) * 1000):
        data = os.read(descriptor, 4096)
        if not data:
            break
        said += data
    return said


def _help(bwrap: str) -> str:
    shown = subprocess.run([bwrap, "--help"], capture_output=True, text=True, env={}, timeout=SECONDS, check=False)
    if shown.returncode != 0:
        raise subprocess.SubprocessError(shown.stderr.strip() or f"it ended with {shown.returncode}")
    return shown.stdout + shown.stderr


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
