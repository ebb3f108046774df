"""`handrail proof prove`: a receipt that one call stands in the signed journal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import click

from handrail.cli.complete import calls, runs
from handrail.cli.ids import resolve_id
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import CommandView, answer, answer_json, tell, with_common_options
from handrail.cli.text import builtins, printable
from handrail.core.errors import UsageError
from handrail.journal.auditing import prove
from handrail.journal.reader import JournalRow


@click.command(
    "prove",
    epilog=examples("handrail proof prove call_4f -o receipt.json", "handrail proof prove call_4f | jq -r .checkpoint"),
)
@click.argument("call", shell_complete=calls)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the receipt there.")
@click.option("--run", shell_complete=runs, metavar="RUN", help="The run, if several have a call of this id.")
@with_common_options
def command(view: CommandView, call: str, output: Path | None, run: str | None) -> None:
    """Make the receipt of one CALL: its answer, and the proof that the signed journal holds it.

    A receipt has the result that was recorded, unless it was erased, and can be checked without the journal.
    """
    with view.reader() as reader:
        run = None if run is None else resolve_id(run, (each.run for each in reader.runs()), "run")
        run, call = _place(reader.entries(run), call)
    # In ASCII, so that no letter of a result can steer the terminal.
    receipt = json.dumps(builtins(prove(view.path, call, run=run)), indent=2)
    if output is None:
        click.echo(receipt)
        return
    _write(output, receipt)
    if view.as_json:
        answer_json({"call": call, "file": str(output)})
        return
    answer(f"receipt of {printable(call)} written to {printable(str(output))}")


def _place(entries: Iterable[JournalRow], given: str) -> tuple[str, str]:
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
    tell("It holds the arguments or the result of the call: give it only to those who may read them.")
