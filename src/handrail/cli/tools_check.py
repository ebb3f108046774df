"""`handrail tools check`: whether files of tools can be loaded."""

from __future__ import annotations

import click

from handrail.cli import text
from handrail.cli.groups import examples, one_line
from handrail.cli.setup import Setup, configured
from handrail.cli.view import Column, answer_json, table, tell
from handrail.config.tools import load_tools
from handrail.core.errors import HandrailError
from handrail.tools.registry import registered

_COLUMNS = (Column("file"), Column("state"), Column("tools", right=True), Column("problem"))


@click.command(
    "check",
    epilog=examples("handrail tools check", "handrail tools check ensembles/*.toml tools.py"),
)
@click.argument("files", nargs=-1)
@configured
def command(setup: Setup, files: tuple[str, ...]) -> None:
    """Load every one of these FILES, or those of the configuration, and say what is wrong where.

    Schemas are compiled, functions imported, names compared. Nothing is called. Exit code 1 means that something is
    wrong.
    """
    chosen = files or tuple(map(str, setup.config.ensembles))
    if not chosen:
        tell("There is nothing to check; name files, or list some under `ensembles` in handrail.toml.")
        return
    checked = [(file, *_checked(file)) for file in chosen]
    if setup.view.as_json:
        for file, count, problem in checked:
            answer_json({"file": file, "ok": problem is None, "tools": count, "problem": problem})
    else:
        table(_COLUMNS, [_row(*each) for each in checked], {"ok": "green", "wrong": "red"})
    if any(problem is not None for _, _, problem in checked):
        raise click.exceptions.Exit(1)


def _checked(file: str) -> tuple[int, str | None]:
    try:
        return len(registered(*load_tools(file))), None
    except HandrailError as error:
        return 0, one_line(error)


def _row(file: str, count: int, problem: str | None) -> tuple[str, ...]:
    return text.visible(file), "ok" if problem is None else "wrong", text.dashed(count), problem or "-"
