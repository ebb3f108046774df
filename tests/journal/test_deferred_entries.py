"""Entries that a journal puts off are there for whoever reads the file in the same process."""

from __future__ import annotations

from pathlib import Path

from handrail.core.events import RunStarted
from handrail.journal.journal import SqliteJournal
from handrail.journal.reader import JournalReader


async def test_a_reader_in_the_process_reads_what_was_put_off_by_whatever_name_of_the_file(tmp_path: Path) -> None:
    path, link = tmp_path / "journal.db", tmp_path / "link"
    link.symlink_to(tmp_path)
    async with await SqliteJournal.open(path) as journal:
        for number, name in enumerate((path, link / "journal.db")):
            run = f"run_{number}"
            assert journal.append_soon(RunStarted(run=run, at=1, tools="", principal="ada"))
            with JournalReader(name) as reader:
                assert run in {summary.run for summary in reader.runs()}
