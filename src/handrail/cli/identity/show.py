"""`handrail identity show`: the id of this node."""

from __future__ import annotations

import click

from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import answer, answer_json, tell
from handrail.cli.run_options import CliSetup, configured
from handrail.cli.token.key_files import identity, key_file


@click.command("show", epilog=examples("handrail identity show", "handrail identity show --json | jq -r .node_id"))
@configured
def command(setup: CliSetup) -> None:
    """Show the id of this node: ed25519: and its public key. Give it to whoever shall trust it."""
    node_id = identity(setup).node_id
    if setup.view.as_json:
        answer_json({"node_id": node_id, "key": str(key_file(setup))})
        return
    answer(node_id)
    tell('Others trust it by it: under [node.trust] they write "ed25519:…" = "member"')
