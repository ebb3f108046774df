"""The files that a jailed program can see: libraries, the Python in use, what was named, and a /tmp of its own.

Not there: /etc but for the loader's cache, /home, /root, /var, /sys, programs other than Python, terminals, /dev/shm.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from handrail.core.errors import SandboxUnavailable

LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64")
PUBLIC = ("/etc/ld.so.cache", "/usr/share/zoneinfo")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
HIDDEN = (
    *("cmdline", "config.gz", "interrupts", "kallsyms", "kcore", "keys", "key-users", "kmsg", "modules", "timer_list"),
    *("iomem", "ioports", "kpagecgroup", "kpagecount", "kpageflags", "slabinfo", "vmallocinfo"),
    *("buddyinfo", "pagetypeinfo", "zoneinfo", "latency_stats", "sched_debug"),
)
"""Of /proc: what tells of the host and not of the program. Much of it is for root, and a jail may be root's."""


def python() -> Path:
    """The interpreter in use, without the virtual environment that it may be in.

    Raises:
        SandboxUnavailable: There is none, as in a program that Python is only a part of.
    """
    found = getattr(sys, "_base_executable", "") or sys.executable
    if not found or getattr(sys, "frozen", False):
        raise SandboxUnavailable("this program has no Python to start again; run it by an installed one")
    return Path(found).resolve()


def python_files() -> Iterator[Path]:
    """The interpreter, and its library where it looks for it: beside the file that it really is."""
    for prefix in (Path(sys.base_prefix), Path(sys.base_exec_prefix)):
        for folder in ("lib", sys.platlibdir):
            yield from (prefix / folder, prefix.resolve() / folder)
    yield python()


def mounts(readable: Iterable[Path], disk_bytes: int) -> list[str]:
    """As bubblewrap's arguments, in the order in which they are to be made."""
    made = [*_read_only(Path(path) for path in (*LIBRARIES, *PUBLIC))]
    for device in DEVICES:
        made += ["--dev-bind", device, device]
    made += ["--symlink", "/proc/self/fd", "/dev/fd", "--proc", "/proc"]
    for name in HIDDEN:
        if os.path.exists(f"/proc/{name}"):
            made += ["--ro-bind", "/dev/null", f"/proc/{name}"]
    made += ["--perms", "1777", "--size", str(disk_bytes), "--tmpfs", "/tmp"]
    made += _read_only(readable)  # after its own /tmp, which would hide what is named of the host's
    # The root and /dev lie in memory as well, and without a bound: nothing may be written there.
    return [*made, "--remount-ro", "/proc", "--remount-ro", "/"]


def _read_only(paths: Iterable[Path]) -> Iterator[str]:
    """The shorter before the longer, so that none hides another."""
    for path in sorted(set(paths), key=lambda path: (len(path.parts), path)):
        if path.is_symlink() and str(path) in LIBRARIES:
            yield from ("--symlink", os.readlink(path), str(path))
        elif path.exists():
            yield from ("--ro-bind", str(path.resolve()), str(path))
