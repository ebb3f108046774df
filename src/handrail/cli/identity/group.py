"""`handrail identity`: the key that this node signs with, and its id."""

from __future__ import annotations

import click

from handrail.cli.lazy_groups import LazyGroup, examples

_COMMANDS = {
    # name    module, and what it is for
    "show": ("handrail.cli.identity.show", "Show the id of this node."),
    "new": ("handrail.cli.identity.new", "Make the key of this node."),
}


@click.group(
    "identity",
    cls=LazyGroup,
    modules={name: module for name, (module, _) in _COMMANDS.items()},
    says={name: says for name, (_, says) in _COMMANDS.items()},
    epilog=examples(
        "handrail identity new",
        "handrail identity show                 what others write under [node.trust]",
    ),
)
def command() -> None:
    """The key of this node, and the id that others know it by.

    The node signs its calls and its tokens with it. The id is the public half of the key: whoever has it can check
    what this node signed. `handrail serve` makes a key if there is none.
    """
