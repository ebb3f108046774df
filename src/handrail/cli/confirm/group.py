"""`handrail confirm`: a person's word on calls that wait for it."""

from __future__ import annotations

import click

from handrail.cli.lazy_groups import LazyGroup, examples

_COMMANDS = {
    # name      module, and what it is for
    "list": ("handrail.cli.confirm.list", "List the calls that wait, oldest first."),
    "allow": ("handrail.cli.confirm.allow", "Let a call run once, with exactly these arguments."),
    "deny": ("handrail.cli.confirm.deny", "Refuse a call."),
    "settle": ("handrail.cli.confirm.settle", "Say what became of a call that is in doubt."),
    "rules": ("handrail.cli.confirm.rules", "List your standing rules."),
    "forget": ("handrail.cli.confirm.forget", "Take back a standing rule."),
}


@click.group(
    "confirm",
    cls=LazyGroup,
    modules={name: module for name, (module, _) in _COMMANDS.items()},
    says={name: says for name, (_, says) in _COMMANDS.items()},
    epilog=examples("handrail confirm list", "handrail confirm allow confirm_0193"),
)
def command() -> None:
    """Answer the calls that wait for a person's word.

    The program that asked may be at work in another process, or have ended: the answer is
    written to its journal. A program that waits for it continues at once; any other uses it when
    the call is asked for again. The first answer counts.
    """
