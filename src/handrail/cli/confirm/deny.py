"""`handrail confirm deny`: say no to a call that waits for a person's word."""

from __future__ import annotations

import click

from handrail.cli import text
from handrail.cli.complete import requests
from handrail.cli.confirm import answers
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import CommandView, answer, answer_json, with_common_options


@click.command(
    "deny",
    epilog=examples(
        "handrail confirm deny confirm_0193",
        "handrail confirm deny confirm_0193 --by ada --reason 'wrong account'",
    ),
)
@click.argument("request", shell_complete=requests)
@click.option("--by", metavar="NAME", help="Who says so. Default: your login name.")
@click.option("--reason", default="", metavar="TEXT", help="Why; the model reads it.")
@with_common_options
def command(view: CommandView, request: str, by: str | None, reason: str) -> None:
    """Refuse the call of this REQUEST. It will not run, and the model is told not to repeat it."""
    question = answers.find(view, request)
    answers.describe(view, question)
    said = answers.give(view.path, question.asked, "deny", by or answers.login_name(), reason)
    if view.as_json:
        answer_json(said)
        return
    answer(f"denied by {text.printable(said.by)}; it will not run")
