"""`handrail rlm report`: a run as a page to look at and to show, with the proof that the journal is whole."""

from __future__ import annotations

import os
from pathlib import Path

import click

from handrail.cli import complete
from handrail.cli.ids import resolve_id
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import CommandView, answer, answer_json, is_terminal, with_common_options
from handrail.cli.resume import is_rlm_run
from handrail.cli.text import printable
from handrail.core.errors import UsageError
from handrail.journal.auditing import audit
from handrail.journal.merkle import root
from handrail.rlm.record.trajectory import read
from handrail.rlm.report import ReportProof, from_journal, from_trajectory, render


@cli_command(
    "report",
    "handrail rlm report run_0193 -o run.html",
    "handrail rlm report logs/rlm_2026-11-15_12-00-00_1a2b3c4d.jsonl -o run.html",
)
@click.argument("run", shell_complete=complete.runs)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the page to this file.")
@with_common_options
def command(view: CommandView, run: str, output: Path | None) -> None:
    """Write a run as a web page.

    RUN is a run of the journal, which is verified first, or a trajectory that handrail or rlms wrote. The page is one
    file without scripts: turns, code, output, queries, tokens, cost and time.
    """
    if output is None and is_terminal() and not view.as_json:
        raise UsageError("a web page cannot be read on a terminal; name a file for it with -o")
    run, page = _page(view, run)
    if output is not None:
        save_page(page, output)
    if view.as_json:
        answer_json({"run": run, "page": page} if output is None else {"run": run, "file": str(output)})
    elif output is None:
        click.echo(page)
    else:
        answer(f"the page of {printable(run)} is written to {printable(str(output))}")


def _page(view: CommandView, run: str) -> tuple[str, str]:
    if (path := Path(run)).suffix == ".jsonl":
        return run, page_of_trajectory(path)
    with view.reader() as reader:
        run = resolve_id(run, (each.run for each in reader.runs()), "run")
    return run, page_of_run(view, run)


def page_of_run(view: CommandView, run: str) -> str:
    """A run of the journal as a page. A run of another kind is a `UsageError`."""
    with view.reader() as reader:
        if not is_rlm_run(run, reader.events(run)):
            raise UsageError(f"run {run!r} is not a run of handrail rlm; look at it with: handrail proof show {run}")
    found = audit(view.path)
    with view.reader() as reader:
        proof = ReportProof(root(reader.hashes()).hex(), found.entries, not found.problems)
        return render(from_journal(reader.events, run, proof))


def page_of_trajectory(path: Path) -> str:
    """A trajectory as a page. A file that is none is a `UsageError`."""
    trajectory = read(path)
    if trajectory.metadata is None and not trajectory.iterations:
        raise UsageError(f"{str(path)!r} is not a trajectory of handrail or rlms: it contains no run")
    return render(from_trajectory(trajectory))


def write_page(view: CommandView, run: str, path: Path) -> None:
    save_page(page_of_run(view, run), path)


def check_page_path(path: Path) -> None:
    """Before anything is spent on what is to be written there.

    Raises:
        UsageError: A page cannot be written there.
    """
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise UsageError(f"cannot write the page {str(path)!r}: name a file in a folder that can be written to")


def save_page(page: str, path: Path) -> None:
    """Writes the page for its owner alone, since it holds what was read and said.

    Raises:
        UsageError: It cannot be written there.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        raise UsageError(f"cannot write the page {str(path)!r}: {error.strerror}") from error
