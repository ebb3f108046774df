"""`handrail token revoke`: a token, or an issuer, that is good no more."""

from __future__ import annotations

import click

from handrail.cli import text
from handrail.cli.ids import resolve_id
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import answer, answer_json
from handrail.cli.run_options import CliSetup, configured
from handrail.cli.token.key_files import tokens
from handrail.node.tokens.identity import NODE_ID
from handrail.node.tokens.token_store import TokenStore


@click.command(
    "revoke",
    epilog=examples("handrail token revoke 01HF7YAT", "handrail token revoke ed25519:…      every token of that node"),
)
@click.argument("id")
@configured
def command(setup: CliSetup, id: str) -> None:
    """Let the token of this ID be good no more, nor any that was made from it. It holds from the next call on.

    The beginning of an id is enough. The id of a node shuts out that node, and every token that it issued.
    """
    with tokens(setup) as store:
        whole = id if NODE_ID.fullmatch(id) else _token(store, id)
        store.revoke(whole)
    if setup.view.as_json:
        answer_json({"id": whole, "revoked": True})
    else:
        answer(f"{text.printable(whole)} is revoked")


def _token(store: TokenStore, id: str) -> str:
    return resolve_id(id, [entry.token.id for entry in store.issued()], "token")
