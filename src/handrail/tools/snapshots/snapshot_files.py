"""Snapshots on disk: all of a file or nothing of it, and no file touched that is right already."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from handrail.core.errors import UsageError
from handrail.tools.snapshots.catalogue import NodeCatalogue
from handrail.tools.snapshots.python import python_source
from handrail.tools.snapshots.rust import rust_source
from handrail.tools.snapshots.typescript import typescript_source

Language = Literal["python", "typescript", "rust"]
State = Literal["same", "written", "missing", "differs"]


@dataclass(frozen=True, slots=True)
class SnapshotWriter:
    file: str
    """What the file is called where nobody names it."""
    source: Callable[[NodeCatalogue], str]


WRITERS: Mapping[Language, SnapshotWriter] = {
    "python": SnapshotWriter("capabilities.py", python_source),
    "typescript": SnapshotWriter("capabilities.ts", typescript_source),
    "rust": SnapshotWriter("capabilities.rs", rust_source),
}


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    language: Language
    path: Path
    state: State


def write_snapshots(catalogue: NodeCatalogue, files: Mapping[Language, Path]) -> list[SnapshotFile]:
    """Write these files, each by a rename. All are made before the first is written.

    Raises:
        UsageError: A file cannot be written.
    """
    sources = {language: WRITERS[language].source(catalogue).encode() for language in files}
    return [SnapshotFile(language, path, _put(path, sources[language])) for language, path in files.items()]


def check_snapshots(catalogue: NodeCatalogue, files: Mapping[Language, Path]) -> list[SnapshotFile]:
    """Say of each file whether it is what would be written. Nothing is written.

    Raises:
        UsageError: A file cannot be read.
    """
    return [
        SnapshotFile(language, path, _compared(path, WRITERS[language].source(catalogue).encode()))
        for language, path in files.items()
    ]


def _compared(path: Path, wanted: bytes) -> State:
    found = _content(path)
    if found is None:
        return "missing"
    return "same" if found == wanted else "differs"


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def _put(path: Path, wanted: bytes) -> State:
    if _content(path) == wanted:
        return "same"
    try:
        _replace(Path(os.path.realpath(path)), wanted)  # a link stays one
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    return "written"


def _replace(path: Path, wanted: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else None
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(wanted)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
