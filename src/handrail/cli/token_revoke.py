"""`handrail token revoke`: a token, or an issuer, that is good no more."""

from __future__ import annotations

import click

from handrail.bus.tokens.identity import NODE_ID
from handrail.bus.tokens.store import TokenStore
from handrail.cli import text
from handrail.cli.groups import examples
from handrail.cli.ids import resolve
from handrail.cli.setup import Setup, configured
from handrail.cli.token_place import tokens
from handrail.cli.view import answer, answer_json


@click.command(
    "revoke",
    epilog=examples("handrail token revoke 01HF7YAT", "handrail token revoke ed25519:…      every token of that node"),
)
@click.argument("id")
@configured
def command(setup: Setup, id: str) -> None:
    """Let the token of this ID be good no more, nor any that was made from it. It holds from the next call on.

    The beginning of an id is enough. The id of a node shuts out that node, and every token that it issued.
    """
    with tokens(setup) as store:
        whole = id if NODE_ID.fullmatch(id) else _token(store, id)
        store.revoke(whole)
    if setup.view.as_json:
        answer_json({"id": whole, "revoked": True})
    else:
        answer(f"{text.visible(whole)} is revoked")


def _token(store: TokenStore, id: str) -> str:
    return resolve(id, [entry.token.id for entry in store.issued()], "token")
