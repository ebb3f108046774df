"""`handrail identity`: the key that this node signs with, and its id."""

from __future__ import annotations

from handrail.cli import text
from handrail.cli.lazy_groups import cli_command, lazy_group
from handrail.cli.output.view import answer, tell
from handrail.cli.run_options import CliSetup, configured
from handrail.cli.token.key_files import identity, key_place, new_identity


@lazy_group(
    "identity",
    {
        "show": ("identity:show", "Show the id of this node."),
        "new": ("identity:new", "Make the key of this node."),
    },
    "handrail identity new",
    "handrail identity show                 what others write under [node.trust]",
)
def command() -> None:
    """The key of this node, and the id that others know it by.

    The node signs its calls and its tokens with it. The id is the public half of the key: whoever has it can check
    what this node signed. `handrail serve` makes a key if there is none.
    """


@cli_command("show", "handrail identity show", "handrail identity show --json | jq -r .node_id")
@configured
def show(setup: CliSetup) -> None:
    """Show the id of this node: ed25519: and its public key. Give it to whoever shall trust it."""
    node_id = identity(setup).node_id
    if setup.view.wrote_json({"node_id": node_id, "key": key_place(setup)}):
        return
    answer(node_id)
    tell('Others trust it by it: under [node.trust] they write "ed25519:…" = "member"')


@cli_command("new", "handrail identity new", "handrail identity new --json | jq -r .node_id")
@configured
def new(setup: CliSetup) -> None:
    """Make the key of this node, in a file that only you can read. A key that is there is never replaced.

    It is .handrail/identity.key beside the journal, or what identity = "…" under [node] says; without the latter,
    replicas with a [state] in PostgreSQL share one there. Keep a copy where you keep passwords: without it nobody is
    this node, and with it anybody is.
    """
    node_id = new_identity(setup).node_id
    if setup.view.wrote_json({"node_id": node_id, "key": key_place(setup)}):
        return
    answer(node_id)
    tell(f"Its key is in {text.printable(key_place(setup))}; only you can read it, and nobody else should")
