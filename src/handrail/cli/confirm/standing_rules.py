"""`handrail confirm rules` and `forget`: what was decided once and for all when a call waited."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from handrail.app.node_state import opened_state
from handrail.cli import text
from handrail.cli.complete import completer, named_config
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import answer, is_terminal, tell, with_output_file
from handrail.cli.run_options import CliSetup, with_unapproved_configuration
from handrail.cli.terminal.person import terminal_person
from handrail.config.load import find_config
from handrail.config.standing_rules import StandingRules
from handrail.core.errors import UsageError


@cli_command("rules", "handrail confirm rules", "handrail confirm rules --json | jq -r .rule")
@with_unapproved_configuration
@with_output_file
def list_rules(setup: CliSetup) -> None:
    """List your standing rules for this configuration, in the order in which they apply.

    You create them with "always" on the page or in the terminal program. They are kept in a file of your user, not in
    the project. Where replicas share a state, they are kept in that state and apply to all replicas. They apply after
    the rules of the configuration.
    """
    with _standing_rules(setup) as standing:
        rules = standing.written()
    if setup.view.wrote_json(*({"rule": rule} for rule in rules)):
        return
    if not rules:
        tell("There are no standing rules for this configuration.")
        return
    for rule in rules:
        answer(text.printable(rule))
    if is_terminal():
        tell("Remove one with: handrail confirm forget 'RULE'")


@contextmanager
def _standing_rules(setup: CliSetup) -> Iterator[StandingRules]:
    """The standing rules of a node with this configuration."""
    with opened_state(setup.config, setup.journal) as state:
        yield state.standing_rules(terminal_person(ask=False).approvals, setup.config.file)


# Of those in the user's file: a shell that completes asks no server.
_complete_rules = completer(
    lambda ctx: terminal_person(ask=False).approvals.rules(find_config(named_config(ctx), Path.cwd()))
)


@cli_command("forget", "handrail confirm forget 'allow io:write_file@sha256:4f1c0a2b77d3 path=a.md'")
@click.argument("rule", shell_complete=_complete_rules)
@with_unapproved_configuration
def forget(setup: CliSetup, rule: str) -> None:
    """Remove the standing RULE, written as `handrail confirm rules` shows it.

    Programs that are running ask you again from their next question on.
    """
    with _standing_rules(setup) as standing:
        if not standing.remove(rule):
            raise UsageError(f"there is no standing rule {rule!r} here; handrail confirm rules lists them")
    setup.view.reply({"rule": rule, "holds": False}, f"forgotten: {text.printable(rule)}")
