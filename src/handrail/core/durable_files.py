"""Files and folders that are still there when the machine has stopped."""

from __future__ import annotations

import os
from pathlib import Path

from handrail.core.keyfile import sync_folder

_UNFINISHED = ".part"


def write_atomically(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Writes a file so that its name has the old content or the new one, whenever the machine stops."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}{_UNFINISHED}")
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def make_folder(folder: Path, mode: int = 0o700) -> None:
    """Have a folder, with all those above it, that is still there when the machine has stopped."""
    if folder.is_dir():
        return
    make_folder(folder.parent, 0o777)
    folder.mkdir(mode, exist_ok=True)
    sync_folder(folder.parent)
