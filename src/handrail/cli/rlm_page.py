"""A run of the journal as a page, with the proof that the journal is whole."""

from __future__ import annotations

import os
from pathlib import Path

from handrail.cli.view import View
from handrail.core.errors import UsageError
from handrail.proof.audit import audit
from handrail.proof.merkle import root
from handrail.rlm.record.trajectory import read
from handrail.rlm.report import Proof, from_journal, from_trajectory, render


def page_of_run(view: View, run: str) -> str:
    """
    Raises:
        JournalError: The journal cannot be read.
    """
    found = audit(view.path)
    with view.reader() as reader:
        proof = Proof(root(reader.hashes()).hex(), found.entries, found.ok)
        return render(from_journal(reader.events, run, proof))


def page_of_trajectory(path: Path) -> str:
    return render(from_trajectory(read(path)))


def write_page(view: View, run: str, path: Path) -> None:
    save(page_of_run(view, run), path)


def save(page: str, path: Path) -> None:
    """For its owner alone: it holds what was read and said.

    Raises:
        UsageError: It cannot be written there.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        raise UsageError(f"cannot write the page {str(path)!r}: {error.strerror}") from error
