"""`handrail identity`: the key that this node signs with, and its id."""

from __future__ import annotations

from handrail.cli import text
from handrail.cli.lazy_groups import cli_command, lazy_group
from handrail.cli.output.view import answer, tell, with_output_file
from handrail.cli.run_options import CliSetup, configured
from handrail.cli.token.key_files import identity, key_place, new_identity


@lazy_group(
    "identity",
    {
        "show": ("identity:show", "Show the id of this node."),
        "new": ("identity:new", "Create the key of this node."),
    },
    "handrail identity new",
    "handrail identity show                 the id that others write under [node.trust]",
)
def command() -> None:
    """Show or create the key and the id of this node.

    The node signs its calls and tokens with the key. The id is the public half of the key, with which others check what
    this node signed. `handrail serve` creates a key if there is none.
    """


@cli_command("show", "handrail identity show", "handrail identity show --json | jq -r .node_id")
@configured
@with_output_file
def show(setup: CliSetup) -> None:
    """Show the id of this node: ed25519: and its public key. Give it to everybody who is to trust this node."""
    node_id = identity(setup).node_id
    if setup.view.wrote_json({"node_id": node_id, "key": key_place(setup)}):
        return
    answer(node_id)
    tell('Others trust this node by its id: under [node.trust] they write "ed25519:…" = "member"')


@cli_command("new", "handrail identity new", "handrail identity new --json | jq -r .node_id")
@configured
def new(setup: CliSetup) -> None:
    """Create the key of this node, in a file that only you can read. An existing key is never replaced.

    The file is .handrail/identity.key beside the journal, or the one that identity = "…" under [node] names. Without
    that setting, replicas with a [state] in PostgreSQL share a key there. Keep a copy where you keep passwords: without
    the key nobody can act as this node, and with it anybody can.
    """
    node_id = new_identity(setup).node_id
    if setup.view.wrote_json({"node_id": node_id, "key": key_place(setup)}):
        return
    answer(node_id)
    tell(f"Its key is in {text.printable(key_place(setup))}; only you can read it, and nobody else should")
