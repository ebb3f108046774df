"""`handrail proof checkpoint`, `prove` and `export`: what to keep, or to give to others."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import click

from handrail.cli import text
from handrail.cli.complete import calls, runs
from handrail.cli.ids import resolve_id
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import CommandView, answer, tell, with_common_options, with_output_file
from handrail.cli.text import builtins, printable
from handrail.core.errors import JournalError, UsageError
from handrail.journal.auditing import export_run, prove
from handrail.journal.note import Checkpoint, split_note
from handrail.journal.reader import JournalRow


@cli_command("checkpoint", "handrail proof checkpoint > journal.note", "handrail proof verify --against journal.note")
@with_common_options
@with_output_file
def checkpoint(view: CommandView) -> None:
    """Print the latest signed checkpoint. Keep it somewhere else.

    It fixes how many entries there are and what they say. If somebody changes the journal later, even with its key, it
    no longer matches the checkpoint.
    """
    with view.reader() as reader:
        signed, size, key = reader.checkpoints(), reader.size(), reader.verifier_key
    if not signed:
        raise JournalError(
            f"the journal {str(view.path)!r} has no checkpoint yet; one is signed when a run ends or the journal closes"
        )
    note = signed[-1][1]
    latest = Checkpoint.parse(split_note(note)[0])
    if view.wrote_json(
        {
            "origin": latest.origin,
            "size": latest.size,
            "root": latest.root.hex(),
            "verifier_key": key,
            "unsigned": size - latest.size,
            "note": note,
        }
    ):
        return
    click.echo(text.printable_lines(note), nl=False)
    tell(f"It covers {latest.size:,} of {text.count_text(size, 'entry')}; it is signed by {text.printable(key)}")
    tell("Keep it where nobody who can change the journal can change it: handrail proof verify --against FILE")


@cli_command(
    "prove", "handrail proof prove call_4f -o receipt.json", "handrail proof prove call_4f | jq -r .checkpoint"
)
@click.argument("call", shell_complete=calls)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the receipt to this file.")
@click.option("--run", shell_complete=runs, metavar="RUN", help="The run, if several runs have a call with this id.")
@with_common_options
def prove_call(view: CommandView, call: str, output: Path | None, run: str | None) -> None:
    """Write the receipt of one CALL: its result, and the proof that the signed journal contains it.

    A receipt has the recorded result unless it was erased, and can be checked without the journal.
    """
    with view.reader() as reader:
        run = None if run is None else resolve_id(run, (each.run for each in reader.runs()), "run")
        run, call = _run_and_call(reader.entries(run), call)
    # In ASCII, so that no letter of a result can steer the terminal.
    receipt = json.dumps(builtins(prove(view.path, call, run=run)), indent=2)
    if output is None:
        click.echo(receipt)
        return
    _write(output, receipt)
    view.reply({"call": call, "file": str(output)}, f"receipt of {printable(call)} written to {printable(str(output))}")


def _run_and_call(entries: Iterable[JournalRow], given: str) -> tuple[str, str]:
    """The run and the id of the call that is meant."""
    runs: dict[str, dict[str, None]] = {}
    for entry in entries:
        if entry.call is not None and entry.type.startswith("call."):
            runs.setdefault(entry.call, {})[entry.run] = None
    call = resolve_id(given, runs, "call")
    match list(runs[call]):
        case [run]:
            return run, call
        case several:
            shown = ", ".join(map(repr, several))
            raise UsageError(f"several runs have a call {call!r}; say which with --run: {shown}")


def _write(path: Path, receipt: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(receipt + "\n")
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be written ({error.strerror}); name another file") from error
    tell("It contains the arguments or the result of the call: give it only to people who may read them.")


@cli_command("export", "handrail proof export run_0193", "handrail proof export run_0193 evidence/march")
@click.argument("run", shell_complete=runs)
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@with_common_options
def export(view: CommandView, run: str, folder: Path | None) -> None:
    """Export a RUN as a proof bundle to a new FOLDER, by default one named after the run.

    The bundle includes a verifier that needs only Python. It contains all arguments and results that were not erased.
    """
    with view.reader() as reader:
        run = resolve_id(run, (each.run for each in reader.runs()), "run")
        key = reader.verifier_key
    target = export_run(view.path, run, folder or Path(f"{_file_name(run)}.proof"))
    if view.wrote_json({"run": run, "folder": str(target), "verifier_key": key}):
        return
    answer(printable(str(target)))
    tell(f"To verify: python3 {printable(str(target / 'verify.py'))} --key '{printable(key)}'")


def _file_name(run: str) -> str:
    """Run ids are anybody's text; a folder is not made from anybody's text."""
    name = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "-" for letter in run)
    return name.strip(".") or "run"
