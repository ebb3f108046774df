"""`handrail confirm`: a person's word on calls that wait for it."""

from __future__ import annotations

import click

from handrail.cli.groups import LazyGroup, examples

_COMMANDS = {
    # name     module
    "list": "handrail.cli.confirm_list",
    "allow": "handrail.cli.confirm_allow",
    "deny": "handrail.cli.confirm_deny",
    "settle": "handrail.cli.confirm_settle",
    "rules": "handrail.cli.confirm_rules",
    "forget": "handrail.cli.confirm_forget",
}


@click.group(
    "confirm",
    cls=LazyGroup,
    modules=_COMMANDS,
    epilog=examples("handrail confirm list", "handrail confirm allow confirm_0193"),
)
def command() -> None:
    """Answer the calls that wait for a person's word.

    The program that asked may be at work in another process, or have ended: the answer is
    written to its journal and used when the call is asked for again.
    """
