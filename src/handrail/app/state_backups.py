"""Backups of a node's state: one file, of either engine, that is verified without the node and restored into either.

A backup is a tar archive of the files that a node on one machine would have, after a list of them with their digests.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct

from handrail.app.journal_copies import JOURNAL
from handrail.app.node_state import KEY, NodeState
from handrail.app.state_copies import (
    FILES,
    RAG,
    StateCounts,
    copy_files,
    database_to_files,
    files_to_database,
)
from handrail.core.errors import HandrailError, UsageError
from handrail.core.keyfile import sync_folder
from handrail.core.ports import Clock, SystemClock
from handrail.core.version import VERSION
from handrail.journal.auditing import audit
from handrail.node.services.blobs import cid_of, file_of
from handrail.node.tokens.identity import Identity
from handrail.sessions.store.conversations import ConversationStore
from handrail.state.database import StateDatabase

_MANIFEST = "manifest.json"
_FORMAT = 1
_LONGEST_MANIFEST = 256 * 1024 * 1024


class BackupManifest(Struct, frozen=True, kw_only=True):
    """What a backup says of itself."""

    format: int
    handrail: str
    at: int
    """Milliseconds since 1970."""
    node_id: str | None
    counts: StateCounts
    files: dict[str, str]
    """The SHA-256 of each file by its path."""


def write_backup(
    state: NodeState, journal: Path, file: Path, *, services: Path | None = None, clock: Clock = SystemClock()
) -> BackupManifest:
    """Put the state of a node, which may be at work, into a new file that only its owner can read: keys are in it.

    Raises:
        UsageError: There is a file of that name, or it cannot be written.
        HandrailError: Something of the state cannot be read.
    """
    if file.exists():
        raise UsageError(f"{str(file)!r} is there already; name a file that does not exist")
    try:
        with tempfile.TemporaryDirectory(prefix=".handrail-backup-", dir=file.absolute().parent) as temporary:
            folder = Path(temporary) / "state"
            counts = _copied(state, journal, folder, services)
            manifest = BackupManifest(
                format=_FORMAT,
                handrail=VERSION,
                at=clock.now(),
                node_id=Identity.load(folder / KEY).node_id if (folder / KEY).exists() else None,
                counts=counts,
                files={str(path.relative_to(folder)): _digest(path) for path in _files(folder)},
            )
            unfinished = Path(temporary) / "backup"
            _pack(manifest, folder, unfinished)
            os.link(unfinished, file)  # unlike a rename it never replaces what came there meanwhile
            sync_folder(file.absolute().parent)
    except FileExistsError as error:
        raise UsageError(f"{str(file)!r} is there already; name a file that does not exist") from error
    except OSError as error:
        raise UsageError(f"the backup {str(file)!r} cannot be written: {error.strerror or error}") from error
    return manifest


def _copied(state: NodeState, journal: Path, folder: Path, services: Path | None) -> StateCounts:
    if state.database is None:
        return copy_files(journal, folder, services)
    return database_to_files(state.database, folder)


def _pack(manifest: BackupManifest, folder: Path, target: Path) -> None:
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            said = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
            _add(tar, _MANIFEST, io.BytesIO(said), len(said))
            for name in manifest.files:
                path = folder / name
                with path.open("rb") as file:
                    _add(tar, name, file, path.stat().st_size)
        out.flush()
        os.fsync(out.fileno())


def _add(tar: tarfile.TarFile, name: str, data: io.BufferedIOBase, size: int) -> None:
    about = tarfile.TarInfo(name)
    about.size, about.mode = size, 0o600
    tar.addfile(about, data)


@contextmanager
def opened_backup(file: Path) -> Iterator[tuple[BackupManifest, Path]]:
    """What a backup says of itself, and a folder with its files until the block ends; each is as it was put in.

    Raises:
        UsageError: It is no backup, is damaged or cut off, or a later handrail made it.
    """
    with tempfile.TemporaryDirectory(prefix="handrail-restore-") as temporary:
        folder = Path(temporary)
        try:
            with tarfile.open(file, mode="r:") as tar:
                manifest = _manifest(tar, file)
                _unpack(tar, manifest, folder, file)
        except (OSError, tarfile.TarError, EOFError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"the backup {str(file)!r} cannot be read: {why}; take another copy of it") from error
        yield manifest, folder


def _manifest(tar: tarfile.TarFile, file: Path) -> BackupManifest:
    first = tar.next()
    held = None if first is None or first.name != _MANIFEST or not first.isreg() else tar.extractfile(first)
    if first is None or held is None or first.size > _LONGEST_MANIFEST:
        raise UsageError(f"{str(file)!r} is not a backup of a node; make one with: handrail state backup FILE")
    said = held.read()
    try:
        format = msgspec.json.decode(said, type=dict[str, object]).get("format")
        if format == _FORMAT:
            return msgspec.json.decode(said, type=BackupManifest)
    except msgspec.MsgspecError as error:
        raise UsageError(f"the backup {str(file)!r} is damaged: {error}; take another copy of it") from error
    by = msgspec.json.decode(said, type=dict[str, object]).get("handrail")
    raise UsageError(f"the backup {str(file)!r} has format {format}, and this handrail reads {_FORMAT}; use {by}")


def _unpack(tar: tarfile.TarFile, manifest: BackupManifest, folder: Path, file: Path) -> None:
    missing = dict(manifest.files)
    while (member := tar.next()) is not None:
        digest, path = missing.pop(member.name, None), PurePosixPath(member.name)
        held = tar.extractfile(member) if member.isreg() else None
        if digest is None or held is None or path.is_absolute() or ".." in path.parts:
            raise UsageError(f"the backup {str(file)!r} holds {member.name!r}, which its list does not name")
        target = folder / path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            shutil.copyfileobj(held, out)
        if _digest(target) != digest:
            raise UsageError(f"in the backup {str(file)!r} {member.name!r} was changed; take another copy of it")
    if missing:
        raise UsageError(f"the backup {str(file)!r} lacks {min(missing)!r}; take another copy of it")


def verify_backup(file: Path) -> tuple[BackupManifest, tuple[str, ...]]:
    """What a backup says of itself, and what is wrong with what it holds: every file, row, conversation, blob and proof
    is looked at.

    Raises:
        UsageError: It is no backup, or its files are not what was put in.
    """
    with opened_backup(file) as (manifest, folder):
        return manifest, tuple(_problems(folder))


def _problems(folder: Path) -> Iterator[str]:
    for name in (*(each.path for each in FILES), RAG):
        if (folder / name).exists():
            with closing(sqlite3.connect(folder / name)) as connection:
                (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if said != "ok":
                yield f"{name}: {said}"
    if (folder / "blobs/index.sqlite").exists():
        yield from _blob_problems(folder / "blobs")
    if (folder / "conversations").is_dir():
        store = ConversationStore(folder)
        for about in store.list():
            try:
                store.load(about.id)
            except HandrailError as error:
                yield f"conversation {about.id}: {error}"
    if (folder / JOURNAL).exists():
        report = audit(folder / JOURNAL)
        if not report.ok:
            yield f"journal: {report}"


def _blob_problems(folder: Path) -> Iterator[str]:
    with closing(sqlite3.connect(folder / "index.sqlite")) as index:
        cids = [cid for (cid,) in index.execute("SELECT cid FROM blob")]
    for cid in cids:
        try:
            if cid_of(file_of(folder, cid).read_bytes()) != cid:
                yield f"blob {cid}: its bytes were changed"
        except OSError:
            yield f"blob {cid}: its bytes are missing"


def restore_backup(file: Path, target: Path | StateDatabase) -> BackupManifest:
    """Have the state of a backup in a folder, or in a database, that has none.

    Raises:
        UsageError: It is no backup, or there is a state already.
        StateError: The database cannot be used.
    """
    with opened_backup(file) as (manifest, folder):
        if isinstance(target, StateDatabase):
            files_to_database(folder, target)
        else:
            move_files(folder, target)
    return manifest


def move_files(folder: Path, target: Path) -> None:
    """Have the files of a state in a folder that has none.

    Raises:
        UsageError: The folder has something of a state, or cannot be written.
    """
    names = sorted(path.name for path in folder.iterdir())
    there = [name for name in (*names, JOURNAL, KEY) if (target / name).exists()]
    if there:
        raise UsageError(
            f"there is a state in {str(target)!r} already ({', '.join(sorted(set(there)))}), and nothing was changed;"
            " name another folder, or move it away"
        )
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Beside it, where what takes long can be cut off and no node takes half of a state for one. The journal goes
        # in last: it is what a node goes on from.
        with tempfile.TemporaryDirectory(prefix=".handrail-restore-", dir=target) as temporary:
            whole = Path(temporary)
            for name in names:
                shutil.move(folder / name, whole / name)
            for path in (whole, *(each for each in whole.rglob("*"))):
                sync_folder(path) if path.is_dir() else _sync(path)
            for name in sorted(names, key=lambda name: name == JOURNAL):
                (whole / name).rename(target / name)
            sync_folder(target)
    except OSError as error:
        why = f"{str(target)!r} cannot be written: {error.strerror}"
        raise UsageError(f"{why}; remove what was written there, then restore again") from error


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
