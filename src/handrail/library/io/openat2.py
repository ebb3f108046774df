"""Two system calls that Python has no names for: `openat2` and `renameat2`. Linux has them since 5.6 and 3.15.

Where they are missing, or a sandbox refuses them, `available` says so and others do
the work: `open_stepwise`, and `link` with `unlink`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from functools import cache

_OPENAT2 = 437
"""The same number on every machine that Linux runs on."""
_HOW = struct.Struct("=QQQ")
_NO_MAGICLINKS, _BENEATH = 0x02, 0x08
_NOREPLACE = 1
_TRIES = 64
"""The kernel gives up, and says try again, when folders are renamed while it looks."""


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@cache
def available() -> bool:
    """Whether the kernel has `openat2` and lets us use it."""
    if not sys.platform.startswith("linux"):
        return False
    here = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        os.close(openat2(here, ".", os.O_PATH))
    except OSError:
        return False
    finally:
        os.close(here)
    return True


def openat2(root: int, path: str, flags: int, mode: int = 0) -> int:
    """Open a path beneath a folder. The kernel lets no link and no `..` on the way lead out, not even for a moment.

    Raises:
        OSError: EXDEV if it would; else as `os.open`.
    """
    how = _HOW.pack(flags | os.O_CLOEXEC, mode, _BENEATH | _NO_MAGICLINKS)
    name = _bytes(path)
    for _ in range(_TRIES):
        opened: int = _libc().syscall(
            ctypes.c_long(_OPENAT2), ctypes.c_int(root), ctypes.c_char_p(name), how, ctypes.c_size_t(_HOW.size)
        )
        if opened >= 0:
            return opened
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(number, os.strerror(number), path)


def rename_without_overwrite(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
    """Rename, but never over something that is there.

    Raises:
        FileExistsError: There is something.
        OSError: ENOSYS where the system cannot do it in one step; else as `os.rename`.
    """
    if not hasattr(_libc(), "renameat2"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    from_, to = (ctypes.c_char_p(_bytes(name)) for name in (source, target))
    if _libc().renameat2(ctypes.c_int(src_dir_fd), from_, ctypes.c_int(dst_dir_fd), to, ctypes.c_uint(_NOREPLACE)):
        number = ctypes.get_errno()
        # Some file systems do not know the wish and say that it makes no sense.
        number = errno.ENOSYS if number == errno.EINVAL else number
        raise OSError(number, os.strerror(number), target)


def _bytes(path: str) -> bytes:
    """The path as C reads it, which would take a NUL for the end."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("embedded null byte")
    return name
