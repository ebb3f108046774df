"""Proof bundles: one run of a journal as a folder that anybody can verify without handrail.

`bundle.jsonl` has a first line about the bundle and then a line for each entry, in the
shape of nrv's proof records: fields for people and tools, and beside them the exact
leaf, its inclusion proof and its body. The readable fields are derived from leaf and
body, by `verifier.RecordFields`, so a verifier can tell when they were changed.

An answer's `input_hash` is the plain SHA-256 of the body of its intent, byte for byte. It
is null once that is erased, since a plain hash of short arguments can be guessed.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from msgspec import Struct

from handrail.core.errors import BrokenProof, UsageError
from handrail.core.keyfile import sync_folder
from handrail.journal.note import Checkpoint, split_note
from handrail.journal.verifier import (
    INLINE,
    InvalidBundle,
    RecordFields,
    attachment_name,
    header,
    parse_object,
    run_extension,
)

_README = """\
To verify: python3 -I verify.py FOLDER --key KEY (any Python from 3.9).
Use your own copy of verify.py, and a KEY from a source you trust: whoever made this folder may have changed both here.
A good answer proves that these are all entries of the run, unchanged and in order, as the key's owner signed them.
It does not prove that the runtime told the truth when it wrote, or that nothing happened outside it.
"""


class BundleEntry(Struct, frozen=True):
    """One entry with what proves it."""

    index: int
    """Its place in the journal."""
    leaf: bytes
    proof: tuple[bytes, ...]
    salt: bytes | None = None
    data: bytes | None = None
    """Its body; None if it has none or it was erased."""


def write_bundle(
    folder: Path, *, run: str, entries: Sequence[BundleEntry], checkpoint_note: str, verifier_key: str
) -> Path:
    """Write the entries of a run, all of them and in order, to a new folder. It appears whole or not at all.

    The checkpoint must carry `run_extension(run, len(entries))`.

    Raises:
        UsageError: The folder exists, there are no entries, or the checkpoint is not for this run.
        BrokenProof: An entry cannot be read.
    """
    folder = Path(folder)
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{str(folder)!r} is there already; name a folder that does not exist")
    checkpoint = _checkpoint_for(run, entries, checkpoint_note)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        (temporary / "attachments").mkdir()
        first = header(_leaf(entries[0])["at"], checkpoint.origin, run, len(entries), verifier_key)
        _write(temporary / "bundle.jsonl", b"".join(map(_line, [first, *_records(temporary, entries)])))
        _write(temporary / "checkpoint", checkpoint_note.encode())
        _write(temporary / "verify.py", files("handrail.journal").joinpath("verifier.py").read_bytes())
        _write(temporary / "README.txt", _README.encode())
        sync_folder(temporary)
        temporary.rename(folder)
        sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return folder


def _checkpoint_for(run: str, entries: Sequence[BundleEntry], note: str) -> Checkpoint:
    checkpoint = Checkpoint.parse(split_note(note)[0])
    if not entries:
        raise UsageError(f"run {run!r} has no entries; there is nothing to export")
    wanted = run_extension(run, len(entries))
    if wanted not in checkpoint.extensions:
        raise UsageError(f"the checkpoint is not for this run; sign one with the extension {wanted!r}")
    return checkpoint


def _records(folder: Path, entries: Sequence[BundleEntry]) -> Iterator[dict[str, Any]]:
    records = RecordFields()
    for entry in entries:
        leaf = _leaf(entry)
        try:
            readable = records.of(leaf, entry.data)
        except InvalidBundle as bad:
            raise BrokenProof(entry.index, str(bad)) from bad
        proof = [step.hex() for step in entry.proof]
        place = {"seq": entry.index, "leaf": entry.leaf.decode(), "proof": proof}
        yield {**readable, **place, **_body(folder, entry, leaf)}


def _leaf(entry: BundleEntry) -> dict[str, Any]:
    try:
        return parse_object(entry.leaf)
    except InvalidBundle as bad:
        raise BrokenProof(entry.index, str(bad)) from bad


def _body(folder: Path, entry: BundleEntry, leaf: dict[str, Any]) -> dict[str, Any]:
    if "body" not in leaf:
        return {}
    if entry.data is None or entry.salt is None:
        return {"erased": True}
    salt = entry.salt.hex()
    if len(entry.data) > INLINE:
        name = attachment_name(leaf)
        _write(folder / name, entry.data)
        return {"salt": salt, "attachment": name}
    try:
        return {"salt": salt, "body": entry.data.decode()}
    except UnicodeDecodeError as error:
        raise BrokenProof(entry.index, "its body is not text") from error


def _line(record: dict[str, Any]) -> bytes:
    # ASCII, so that no letter of a body can look like the end of a line or turn the writing around.
    return json.dumps(record, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
