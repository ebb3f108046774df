"""A file that holds one secret: only its owner may read it, and it is made whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_LONGEST = 4096


class CarelessFile(Exception):
    """It is no file, or others can read it. The words say what to do."""


def read_key(path: Path) -> str:
    """The text of a key file.

    Raises:
        CarelessFile: It must not be used as it is.
        OSError: It cannot be read.
    """
    # Without O_NONBLOCK a pipe in the place of the file would hang the caller.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise CarelessFile(f"{str(path)!r} is not a file; give the path of a key file")
        if mode & 0o077:
            shown = f"{str(path)!r} (mode {stat.S_IMODE(mode):04o})"
            raise CarelessFile(f"others can use the key in {shown}; run: chmod 600 {path}")
        return file.read(_LONGEST).decode("ascii", "replace")


def create_key(path: Path, text: str) -> bool:
    """Write a new key file, never in the place of another: if there is one by then, that one stands, and it is False.

    Raises:
        OSError: It cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
        sync_folder(path.parent)
    return True


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
