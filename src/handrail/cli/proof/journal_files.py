"""`handrail proof erase`, `backup` and `new`: taking words out of a journal, copying it, beginning another."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import click

from handrail.cli import text
from handrail.cli.complete import calls, runs
from handrail.cli.ids import resolve_id
from handrail.cli.journal_location import DEFAULT, configured_journal
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import CommandView, answer, ask, tell, with_common_options
from handrail.core.errors import UsageError
from handrail.journal.database import back_up, key_file
from handrail.journal.journal import SqliteJournal
from handrail.journal.journal_files import set_lost_journal_aside
from handrail.journal.places import file_of
from handrail.journal.reader import JournalReader, JournalRow, erase


@cli_command(
    "erase",
    "handrail proof erase run_0193",
    "handrail proof erase run_0193 --call call_4f",
    "handrail proof erase --before 2026-01-31 --yes",
)
@click.argument("run", required=False, shell_complete=runs)
@click.option("--call", shell_complete=calls, metavar="CALL", help="Only of this call.")
@click.option("--before", metavar="DATE", help="Only what was recorded before this date or time (ISO 8601).")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_common_options
def erase_bodies(view: CommandView, run: str | None, call: str | None, before: str | None, yes: bool) -> None:
    """Erase arguments and results: of a RUN, of one call, from before a date, or of what matches all three.

    The journal still shows that something was called, when, and how it ended, and every proof stays valid. Copies of
    the journal and exported bundles are not changed.
    """
    if run is None and call is None and before is None:
        raise click.UsageError("Say what to erase: RUN, --call or --before.")
    limit = None if before is None else _milliseconds(before, view.utc)
    with view.reader() as reader:
        run = None if run is None else resolve_id(run, (each.run for each in reader.runs()), "run")
        chosen = _chosen(reader, run, limit)
        if call is not None:
            call = resolve_id(
                call, (each.call for each in chosen if each.call is not None), "call with something to erase"
            )
            chosen = [each for each in chosen if each.call == call]
        unfinished = [each.run for each in reader.runs() if each.finished is None]
    _announce(chosen, set(unfinished))
    if chosen and not yes and not ask("Erase them?"):
        tell("Nothing was erased.")
        raise click.exceptions.Exit(1)
    erased = erase(view.path, run=run, call_id=call, before=limit)
    view.reply(
        {"erased": erased, "run": run, "call": call, "before": limit},
        f"erased {_bodies(erased)}; the entries stay, and their proofs stay valid",
    )


def _chosen(reader: JournalReader, run: str | None, before: int | None) -> list[JournalRow]:
    return [each for each in reader.entries(run) if each.data is not None and (before is None or each.at < before)]


def _announce(chosen: list[JournalRow], unfinished: set[str]) -> None:
    runs = {each.run for each in chosen}
    tell(f"{_bodies(len(chosen))} in {text.count_text(len(runs), 'run')} would be deleted for good; proofs stay valid.")
    for run in sorted(runs & unfinished):
        tell(f"Run {text.printable(run)!r} has not ended: if it is resumed, it finds its earlier results erased.")


def _bodies(number: int) -> str:
    return text.count_text(number, "argument or result").replace("argument or results", "arguments and results")


def _milliseconds(date: str, utc: bool) -> int:
    try:
        moment = datetime.fromisoformat(date)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC) if utc else moment.astimezone()
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{date!r} is not a date; write it as 2026-01-31 or 2026-01-31T18:00+01:00") from error


@cli_command(
    "backup", "handrail proof backup journal-2026-11-16.db", "handrail proof verify --journal journal-2026-11-16.db"
)
@click.argument("file", type=click.Path(path_type=Path))
@with_common_options
def backup(view: CommandView, file: Path) -> None:
    """Copy the journal as it is now into a new file.

    A plain copy of a journal in use lacks what is in its write-ahead log. This copy needs no other file and can be
    verified on read-only media. The key is not copied; keep it separately.
    """
    path = file_of(view.path, "handrail proof backup")
    count = back_up(path, file)
    if view.wrote_json({"journal": str(path), "backup": str(file), "entries": count}):
        return
    answer(f"{text.count_text(count, 'entry')} of {text.printable(str(path))} are in {text.printable(str(file))}")
    tell("The copy does not contain the key; to use the copy instead of the journal, put the key beside it.")


@cli_command("new", "handrail proof new", "handrail proof new --journal audit/journal.db")
@with_common_options
def new(view: CommandView) -> None:
    """Begin a new journal where the old one was lost.

    Nothing is deleted: the old key and other remains are moved aside, and the new journal has a new key. Runs of the
    lost journal can no longer be resumed, and their effects may be repeated if somebody asks for them again.
    """
    named = view.named or configured_journal(view.config, Path.cwd()) or Path.cwd() / DEFAULT
    path = file_of(named, "handrail proof new")
    moved = set_lost_journal_aside(path, key_file(path))
    key = asyncio.run(_begin(path))
    if view.wrote_json({"journal": str(path), "verifier_key": key, "set_aside": [str(each) for each in moved]}):
        return
    for each in moved:
        answer(f"Set aside: {text.printable(str(each))}")
    answer(f"A new journal begins at {text.printable(str(path))}, signed by {text.printable(key)}")


async def _begin(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    async with await SqliteJournal.open(path) as journal:
        return journal.verifier_key
