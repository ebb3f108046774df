"""Disks that really fail, without root, compiler or special devices.

Two ways, both by the kernel. A seccomp filter makes a system call of this process end in
an error of our choice: a sync that fails, a write that fails. A mount namespace of our own
has a file system in memory that is small and can be filled, or that is read-only. Neither
can be taken back, so both are for processes that exist to be broken.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)

_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CALLS = {
    # name        x86_64, aarch64
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    "write": (1, 64),
    "pwrite64": (18, 68),
    "ftruncate": (77, 46),
    "seccomp": (317, 277),
}
SYNCS = ("fsync", "fdatasync")
WRITES = ("write", "pwrite64")

_NO_NEW_PRIVILEGES = 38
_SET_FILTER, _ALL_THREADS = 1, 1
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16
"""Where the kernel puts them in what a filter sees."""

_NEW_MOUNTS, _NEW_USERS = 0x00020000, 0x10000000
_PRIVATE, _RECURSIVE, _REMOUNT, _BIND, _READ_ONLY = 1 << 18, 1 << 14, 1 << 5, 1 << 12, 1


def break_calls(
    names: Sequence[str], error: int, *, files: Iterable[int] | None = None, all_threads: bool = True
) -> None:
    """From here on these system calls of this process fail with this error; with `files`, only on those descriptors."""
    if _LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel does not let this process filter its system calls")
    program = _program(tuple(map(_number, names)), error, None if files is None else tuple(files))
    held = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: how many instructions, and where.
    told = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(held)))
    if _LIBC.syscall(_number("seccomp"), _SET_FILTER, _ALL_THREADS if all_threads else 0, told):
        raise OSError(ctypes.get_errno(), "the kernel does not let this process filter its system calls")


def _number(name: str) -> int:
    return _CALLS[name][0 if platform.machine() == "x86_64" else 1]


def _program(numbers: tuple[int, ...], error: int, files: tuple[int, ...] | None) -> bytes:
    """Classic BPF: if it is one of these calls (on one of these files), return the error; else allow it."""
    end = [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERROR | error)]
    tests = list(files or ())
    lines = [(_LOAD, 0, 0, _MACHINE), (_EQUAL, 0, -1, _ARCHITECTURE[platform.machine()]), (_LOAD, 0, 0, _NUMBER)]
    lines += [(_EQUAL, -3 if files is not None else -2, 0, number) for number in numbers]
    if files is not None:
        lines += [(_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
        lines += [(_EQUAL, -2, 0, each) for each in tests]
    allow, fail = len(lines), len(lines) + 1
    look = len(lines) - len(tests) - 1
    places = {-1: allow, -2: fail, -3: look}

    def jump(at: int, to: int) -> int:
        return places[to] - at - 1 if to < 0 else to

    made = [(code, jump(at, yes), jump(at, no), value) for at, (code, yes, no, value) in enumerate(lines)]
    return b"".join(struct.pack("HBBI", *line) for line in made + end)


def open_files(folder: Path) -> list[int]:
    """The descriptors that this process has on files below a folder."""
    found = []
    for each in os.listdir("/proc/self/fd"):
        try:
            where = os.readlink(f"/proc/self/fd/{each}")
        except FileNotFoundError:  # the one that listed them
            continue
        if where.startswith(f"{folder}/"):
            found.append(int(each))
    return found


def own_mounts() -> None:
    """Give this process mounts of its own, that nobody else sees. It must have one thread only.

    Raises:
        OSError: The kernel does not allow it.
    """
    user, group = os.getuid(), os.getgid()
    if os.geteuid() == 0:
        _checked(_LIBC.unshare(_NEW_MOUNTS))
    else:
        _checked(_LIBC.unshare(_NEW_MOUNTS | _NEW_USERS))
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    _checked(_LIBC.mount(b"none", b"/", None, _PRIVATE | _RECURSIVE, None))


def small_disk(folder: Path, size: int) -> None:
    """A file system of so many bytes in the place of a folder."""
    _checked(_LIBC.mount(b"small", os.fsencode(folder), b"tmpfs", 0, f"size={size}".encode()))


def read_only(folder: Path) -> None:
    """Let nothing be written below a folder, not even by root."""
    where = os.fsencode(folder)
    _checked(_LIBC.mount(where, where, None, _BIND, None))
    _checked(_LIBC.mount(b"none", where, None, _REMOUNT | _BIND | _READ_ONLY, None))


def fill(folder: Path) -> None:
    """Use up what room there is, to the last byte."""
    with open(filler(folder), "ab", buffering=0) as file:
        for size in (2**16, 2**12, 1):
            try:
                while file.write(bytes(size)):
                    continue
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def filler(folder: Path) -> Path:
    return folder / "filler"


def _checked(answer: int) -> None:
    if answer:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
