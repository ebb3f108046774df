"""`handrail identity show`: the id of this node."""

from __future__ import annotations

import click

from handrail.cli.groups import examples
from handrail.cli.setup import Setup, configured
from handrail.cli.token_place import identity, key_file
from handrail.cli.view import answer, answer_json, tell


@click.command("show", epilog=examples("handrail identity show", "handrail identity show --json | jq -r .node_id"))
@configured
def command(setup: Setup) -> None:
    """Show the id of this node: ed25519: and its public key. Give it to whoever shall trust it."""
    node_id = identity(setup).node_id
    if setup.view.as_json:
        answer_json({"node_id": node_id, "key": str(key_file(setup))})
        return
    answer(node_id)
    tell('Others trust it by it: under [node.trust] they write "ed25519:…" = "member"')
