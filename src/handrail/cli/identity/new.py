"""`handrail identity new`: a key for this node."""

from __future__ import annotations

import click

from handrail.cli import text
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import answer, answer_json, tell
from handrail.cli.run_options import CliSetup, configured
from handrail.cli.token.key_files import key_file
from handrail.node.tokens.identity import Identity


@click.command("new", epilog=examples("handrail identity new", "handrail identity new --json | jq -r .node_id"))
@configured
def command(setup: CliSetup) -> None:
    """Make the key of this node, in a file that only you can read. A key that is there is never replaced.

    It is .handrail/identity.key beside the journal, or what identity = "…" under [node] says. Keep a copy where you
    keep passwords: without it nobody is this node, and with it anybody is.
    """
    path = key_file(setup)
    node_id = Identity.create(path).node_id
    if setup.view.as_json:
        answer_json({"node_id": node_id, "key": str(path)})
        return
    answer(node_id)
    tell(f"Its key is in {text.printable(str(path))}; only you can read it, and nobody else should")
