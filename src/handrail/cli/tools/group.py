"""`handrail tools`: the tools that models are offered."""

from __future__ import annotations

import click

from handrail.cli.lazy_groups import LazyGroup, examples

_COMMANDS = {
    # name      module, and what it is for
    "list": ("handrail.cli.tools.list", "List the tools, and whether they change something."),
    "show": ("handrail.cli.tools.show", "Show one tool: what a model is told, how its calls are treated."),
    "search": ("handrail.cli.tools.search", "Show which tools a turn would offer for some words."),
    "call": ("handrail.cli.tools.call", "Call one tool by hand."),
    "check": ("handrail.cli.tools.check", "Check files or the whole configuration, without calling anything."),
}


@click.group(
    "tools",
    cls=LazyGroup,
    modules={name: module for name, (module, _) in _COMMANDS.items()},
    says={name: says for name, (_, says) in _COMMANDS.items()},
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
