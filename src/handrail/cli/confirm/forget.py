"""`handrail confirm forget`: a standing rule, taken back."""

from __future__ import annotations

from pathlib import Path

import click

from handrail.cli import text
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import answer, answer_json
from handrail.cli.run_options import CliSetup, with_unapproved_configuration
from handrail.cli.terminal.person import terminal_person
from handrail.config.load import find_config
from handrail.core.errors import HandrailError, UsageError


def _rules(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    named = ctx.params.get("config") or ctx.find_root().params.get("config")
    try:
        rules = terminal_person(ask=False).approvals.rules(find_config(named, Path.cwd()))
    except HandrailError:
        return []
    return [rule for rule in rules if rule.startswith(incomplete) and rule.isascii() and rule.isprintable()]


@click.command("forget", epilog=examples("handrail confirm forget 'allow io:write_file@sha256:4f1c0a2b77d3 path=a.md'"))
@click.argument("rule", shell_complete=_rules)
@with_unapproved_configuration
def command(setup: CliSetup, rule: str) -> None:
    """Take back the standing RULE, as `handrail confirm rules` shows it.

    From their next question on, programs that are at work ask you again.
    """
    if not terminal_person(ask=False).approvals.remove_rule(setup.config.file, rule):
        raise UsageError(f"there is no standing rule {rule!r} here; handrail confirm rules lists them")
    if setup.view.as_json:
        answer_json({"rule": rule, "holds": False})
    else:
        answer(f"forgotten: {text.printable(rule)}")
