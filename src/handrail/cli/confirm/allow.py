"""`handrail confirm allow`: let a call run that waits for a person's word."""

from __future__ import annotations

import sys

import click

from handrail.cli import text
from handrail.cli.complete import requests
from handrail.cli.confirm import answers
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import CommandView, answer, answer_json, ask, tell, with_common_options
from handrail.core.errors import UsageError


@click.command(
    "allow",
    epilog=examples("handrail confirm allow confirm_0193", "handrail confirm allow confirm_0193 --by ada --yes"),
)
@click.argument("request", shell_complete=requests)
@click.option("--by", metavar="NAME", help="Who says so. Default: your login name.")
@click.option("--yes", is_flag=True, help="Do not ask on a terminal.")
@with_common_options
def command(view: CommandView, request: str, by: str | None, yes: bool) -> None:
    """Let the call of this REQUEST run: once, with exactly the arguments that are shown.

    On a terminal you are asked after you have seen them. The call runs at once if its program waits for the answer,
    else when the program asks for it again.
    """
    question = answers.find(view, request)
    answers.describe(view, question)
    _refuse_unseen(question)
    if not yes and sys.stdin.isatty() and not ask("Allow it?"):
        tell("Nothing was answered; the request still waits.")
        raise click.exceptions.Exit(1)
    said = answers.give(view.path, question.asked, "allow", by or answers.login_name())
    if view.as_json:
        answer_json(said)
        return
    answer(f"allowed by {text.printable(said.by)}; it runs when its program asks for it again")


def _refuse_unseen(question: answers.WaitingQuestion) -> None:
    request = question.asked.request
    match question.shown:
        case "erased":
            raise UsageError(f"the arguments of {request!r} were erased, so nobody can see what would run; deny it")
        case "changed":
            raise UsageError(
                f"what is shown for {request!r} is not what would run: the record was changed;"
                " run: handrail proof verify"
            )
        case "hidden":
            raise UsageError(
                f"a part of the arguments of {request!r} looks like a secret and is hidden here, and what"
                " cannot be shown in full cannot be allowed; run this as the user who has the journal's key,"
                " answer where the question was asked, or deny it"
            )
        case "whole" | "masked":
            return
