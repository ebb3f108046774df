"""The top of the command line: what there is, and the options that hold for all of it."""

from __future__ import annotations

from pathlib import Path

import click

import handrail
from handrail.cli.groups import RootGroup, examples

_COMMANDS = {
    # name       module
    "proof": "handrail.cli.proof",
    "confirm": "handrail.cli.confirm",
}


@click.group(
    cls=RootGroup,
    modules=_COMMANDS,
    epilog=examples(
        "handrail proof list                    which runs there were",
        "handrail proof verify                  whether the record is whole",
        "handrail confirm list                  what waits for a person",
        "handrail --journal other.db proof list",
    ),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--journal",
    type=click.Path(path_type=Path),
    envvar="HANDRAIL_JOURNAL",
    metavar="PATH",
    help="The journal to look at. Default: $HANDRAIL_JOURNAL, or .handrail/journal.db here or in a folder above.",
)
@click.version_option(handrail.__version__, prog_name="handrail", message="%(prog)s %(version)s")
def root(journal: Path | None) -> None:
    """Tool calls you can lean on: look at what ran, prove it, and answer what waits."""
