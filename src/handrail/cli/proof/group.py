"""`handrail proof`: the record of what ran."""

from __future__ import annotations

import click

from handrail.cli.lazy_groups import LazyGroup, examples

_COMMANDS = {
    # name      module, and what it is for
    "list": ("handrail.cli.proof.list", "List the runs, and what came of their calls."),
    "show": ("handrail.cli.proof.show", "Show a run as a timeline, or one call of it."),
    "verify": ("handrail.cli.proof.verify", "Check the whole record, and say what that proves."),
    "checkpoint": ("handrail.cli.proof.checkpoint", "Print the latest signed checkpoint, to keep elsewhere."),
    "prove": ("handrail.cli.proof.prove", "Make the receipt of one call."),
    "export": ("handrail.cli.proof.export", "Write a run as a bundle that anybody can verify."),
    "erase": ("handrail.cli.proof.erase", "Erase arguments and results, and keep every proof valid."),
    "backup": ("handrail.cli.proof.backup", "Copy the journal, whole, while it is in use."),
    "new": ("handrail.cli.proof.new", "Begin a new journal where one was lost."),
    "stats": ("handrail.cli.proof.stats", "Show how often each tool was offered, picked and failed."),
}


@click.group(
    "proof",
    cls=LazyGroup,
    modules={name: module for name, (module, _) in _COMMANDS.items()},
    says={name: says for name, (_, says) in _COMMANDS.items()},
    epilog=examples("handrail proof list", "handrail proof show run_0193", "handrail proof verify"),
)
def command() -> None:
    """Look at the record of what ran, and prove it.

    Ids can be cut short as long as only one fits. With --json a command that lists things
    writes one JSON object a line, and every other command one JSON document.
    """
