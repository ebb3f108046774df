"""`handrail confirm rules`: what was said once and for all when a call waited."""

from __future__ import annotations

import click

from handrail.cli import text
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import answer, answer_json, is_terminal, tell
from handrail.cli.run_options import CliSetup, with_unapproved_configuration
from handrail.cli.terminal.person import terminal_person


@click.command("rules", epilog=examples("handrail confirm rules", "handrail confirm rules --json | jq -r .rule"))
@with_unapproved_configuration
def command(setup: CliSetup) -> None:
    """List your standing rules for this configuration, in the order in which they are asked.

    You set them at the page or in the terminal program, by "always". They stand in a file of your own, not in the
    project, and are asked after the rules of the configuration.
    """
    rules = terminal_person(ask=False).approvals.rules(setup.config.file)
    if setup.view.as_json:
        for rule in rules:
            answer_json({"rule": rule})
        return
    if not rules:
        tell("There are no standing rules for this configuration.")
        return
    for rule in rules:
        answer(text.printable(rule))
    if is_terminal():
        tell("Take one back with: handrail confirm forget 'RULE'")
