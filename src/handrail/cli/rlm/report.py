"""`handrail rlm report`: a run as a page to look at and to show."""

from __future__ import annotations

from pathlib import Path

import click

from handrail.cli import complete
from handrail.cli.ids import resolve_id
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import CommandView, answer, answer_json, is_terminal, with_common_options
from handrail.cli.rlm.report_page import page_of_run, page_of_trajectory, save_page
from handrail.cli.text import printable
from handrail.core.errors import UsageError


@click.command(
    "report",
    epilog=examples(
        "handrail rlm report run_0193 -o run.html",
        "handrail rlm report logs/rlm_2026-11-15_12-00-00_1a2b3c4d.jsonl -o run.html",
    ),
)
@click.argument("run", shell_complete=complete.runs)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the page there.")
@with_common_options
def command(view: CommandView, run: str, output: Path | None) -> None:
    """Write a run as a page to look at and to show.

    RUN is a run of the journal, which is verified first, or a trajectory that handrail or rlms wrote. The page is one
    file without scripts: turns, code, output, queries, tokens, cost and time.
    """
    if output is None and is_terminal() and not view.as_json:
        raise UsageError("a page is nothing to read on a terminal; name a file for it with -o")
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
