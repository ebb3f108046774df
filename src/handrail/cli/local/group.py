"""`handrail local`: the model that runs on this machine."""

from __future__ import annotations

import click

from handrail.cli.lazy_groups import LazyGroup, examples

_COMMANDS = {
    # name      module, and what it is for
    "setup": ("handrail.cli.local.setup", "Fetch and merge the weights of the model, once: 98 MB."),
    "status": ("handrail.cli.local.status", "Say whether the model can run."),
}


@click.group(
    "local",
    cls=LazyGroup,
    modules={name: module for name, (module, _) in _COMMANDS.items()},
    says={name: says for name, (_, says) in _COMMANDS.items()},
    epilog=examples("handrail local setup", "handrail local status"),
)
def command() -> None:
    """The model that runs on this machine.

    It is small: short requests in English or German with a few tools mostly go right; reasoning and arithmetic do
    not. It needs no key, and no network once it is set up.
    """
