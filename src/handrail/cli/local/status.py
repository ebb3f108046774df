"""`handrail local status`: whether the embedded model can run."""

from __future__ import annotations

import click

from handrail.cli.doctor.checks import check_local, print_checks
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import CommandView, with_common_options


@click.command("status", epilog=examples("handrail local status", "handrail local status --json"))
@with_common_options
def command(view: CommandView) -> None:
    """Say whether the embedded model is installed and set up; exit code 1 means that it cannot run."""
    print_checks(check_local(), as_json=view.as_json, strict=True)
