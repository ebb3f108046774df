"""`handrail proof export`: a run as a folder that anybody can verify without handrail."""

from __future__ import annotations

from pathlib import Path

import click

from handrail.cli.complete import runs
from handrail.cli.ids import resolve_id
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import CommandView, answer, answer_json, tell, with_common_options
from handrail.cli.text import printable
from handrail.journal.auditing import export_run


@click.command(
    "export",
    epilog=examples("handrail proof export run_0193", "handrail proof export run_0193 evidence/march"),
)
@click.argument("run", shell_complete=runs)
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@with_common_options
def command(view: CommandView, run: str, folder: Path | None) -> None:
    """Write a RUN as a proof bundle to a new FOLDER, by default one named after the run.

    The bundle has a verifier of its own that needs only Python. Nothing is left out: it holds
    arguments and results that were not erased.
    """
    with view.reader() as reader:
        run = resolve_id(run, (each.run for each in reader.runs()), "run")
        key = reader.verifier_key
    target = export_run(view.path, run, folder or Path(f"{_file_name(run)}.proof"))
    if view.as_json:
        answer_json({"run": run, "folder": str(target), "verifier_key": key})
        return
    answer(printable(str(target)))
    tell(f"To verify: python3 {printable(str(target / 'verify.py'))} --key '{printable(key)}'")


def _file_name(run: str) -> str:
    """Run ids are anybody's text; a folder is not made from anybody's text."""
    name = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "-" for letter in run)
    return name.strip(".") or "run"
