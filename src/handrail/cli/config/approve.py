"""`handrail approve`: let a configuration do what it says beyond the defaults, after a look at it."""

from __future__ import annotations

import click

from handrail.cli import text
from handrail.cli.config.approval import describe_powers
from handrail.cli.confirm.answers import login_name
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import ask, tell
from handrail.cli.run_options import CliSetup, with_unapproved_configuration
from handrail.config.approvals import Approvals
from handrail.config.powers import Powers, powers_of
from handrail.core.errors import UsageError


@cli_command("approve", "handrail approve", "handrail approve --yes", "handrail approve --revoke")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--show", is_flag=True, help="Only show what the configuration can do.")
@click.option("--revoke", is_flag=True, help="Revoke the approval.")
@with_unapproved_configuration
def command(setup: CliSetup, yes: bool, show: bool, revoke: bool) -> None:
    """Review what the configuration can do, and approve it.

    You approve what goes beyond the defaults: Python code and programs of its ensembles, addresses of models, rules
    that allow calls, folders and hosts that models may reach, other nodes. The approval covers the file as it is and
    every file that it names; when one of them changes, you are asked again. Without an approval no command uses the
    configuration. MCP servers are approved one by one, with handrail mcp approve.
    """
    file = setup.config.file
    if file is None:
        raise UsageError("there is no handrail.toml here or above, so there is nothing to approve")
    approvals, powers = Approvals.here(), powers_of(setup.config)
    if revoke:
        if not approvals.revoke_config(file):
            raise UsageError(f"{str(file)!r} was not approved")
        _print(setup, powers, False, f"{text.printable(str(file))} is no longer approved")
        return
    why = approvals.missing_approval(file, powers)
    if why is None or show:
        _show(setup, powers, why)
        return
    describe_powers(file, powers, why)
    if not yes and not ask("Allow it, now and later?"):
        tell("Not approved.")
        raise click.exceptions.Exit(1)
    approvals.approve_config(file, powers, by=login_name())
    _print(setup, powers, True, f"{text.printable(str(file))} is approved")


def _show(setup: CliSetup, powers: Powers, why: str | None) -> None:
    file, name = setup.config.file, text.printable(str(setup.config.file))
    if not powers.lines:
        _print(setup, powers, True, f"{name} needs no approval: it does nothing beyond the defaults")
        return
    if not setup.view.as_json and file is not None:
        describe_powers(file, powers, why or "you want to look; it is approved")
    _print(setup, powers, why is None, f"{name} is {'approved' if why is None else 'not approved'}")


def _print(setup: CliSetup, powers: Powers, approved: bool, words: str) -> None:
    setup.view.reply({"file": str(setup.config.file), "approved": approved, "would": list(powers.lines)}, words)
