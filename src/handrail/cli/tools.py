"""`handrail tools`: the tools that models are offered."""

from __future__ import annotations

import click

from handrail.cli.groups import LazyGroup, examples

_COMMANDS = {
    # name    module
    "list": "handrail.cli.tools_list",
    "show": "handrail.cli.tools_show",
    "search": "handrail.cli.tools_search",
    "call": "handrail.cli.tools_call",
    "check": "handrail.cli.tools_check",
}


@click.group(
    "tools",
    cls=LazyGroup,
    modules=_COMMANDS,
    epilog=examples(
        "handrail tools list",
        "handrail tools show add --tools tools.py",
        'handrail tools call add \'{"a": 1, "b": 2}\' --tools tools.py',
        "handrail tools check ensembles/*.toml",
    ),
)
def command() -> None:
    """Look at tools, check them, and call them by hand.

    Without --tools, those that handrail.toml configures.
    """
