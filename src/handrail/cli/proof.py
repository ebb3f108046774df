"""`handrail proof`: the record of what ran."""

from __future__ import annotations

import click

from handrail.cli.groups import LazyGroup, examples

_COMMANDS = {
    # name         module
    "list": "handrail.cli.proof_list",
    "show": "handrail.cli.proof_show",
    "verify": "handrail.cli.proof_verify",
    "checkpoint": "handrail.cli.proof_checkpoint",
    "prove": "handrail.cli.proof_prove",
    "export": "handrail.cli.proof_export",
    "erase": "handrail.cli.proof_erase",
    "stats": "handrail.cli.proof_stats",
}


@click.group(
    "proof",
    cls=LazyGroup,
    modules=_COMMANDS,
    epilog=examples("handrail proof list", "handrail proof show run_0193", "handrail proof verify"),
)
def command() -> None:
    """Look at the record of what ran, and prove it.

    Ids can be cut short as long as only one fits. With --json a command that lists things
    writes one JSON object a line, and every other command one JSON document.
    """
