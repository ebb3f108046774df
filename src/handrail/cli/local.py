"""`handrail local`: the model that runs on this machine."""

from __future__ import annotations

import click

from handrail.cli.groups import LazyGroup, examples

_COMMANDS = {
    # name     module
    "setup": "handrail.cli.local_setup",
    "status": "handrail.cli.local_status",
}


@click.group(
    "local",
    cls=LazyGroup,
    modules=_COMMANDS,
    epilog=examples("handrail local setup", "handrail local status"),
)
def command() -> None:
    """The model that runs on this machine.

    It is small: short English requests with a few tools mostly go right; reasoning and arithmetic do not. It needs
    no key, and no network once it is set up.
    """
