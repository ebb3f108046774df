"""`handrail confirm rules`: what was said once and for all when a call waited."""

from __future__ import annotations

import click

from handrail.cli import text
from handrail.cli.consent import person_here
from handrail.cli.groups import examples
from handrail.cli.setup import Setup, configured_unapproved
from handrail.cli.view import answer, answer_json, is_terminal, tell


@click.command("rules", epilog=examples("handrail confirm rules", "handrail confirm rules --json | jq -r .rule"))
@configured_unapproved
def command(setup: Setup) -> None:
    """List your standing rules for this configuration, in the order in which they are asked.

    You set them at the page or in the terminal program, by "always". They stand in a file of your own, not in the
    project, and are asked after the rules of the configuration.
    """
    rules = person_here(ask=False).approvals.rules(setup.config.file)
    if setup.view.as_json:
        for rule in rules:
            answer_json({"rule": rule})
        return
    if not rules:
        tell("There are no standing rules for this configuration.")
        return
    for rule in rules:
        answer(text.visible(rule))
    if is_terminal():
        tell("Take one back with: handrail confirm forget 'RULE'")
