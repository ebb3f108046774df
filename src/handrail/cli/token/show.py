"""`handrail token show`: what a token says, and whether it is good here and now."""

from __future__ import annotations

import asyncio

import click

from handrail.app.network_node import admission_of
from handrail.cli import text
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import answer, answer_json
from handrail.cli.run_options import CliSetup, configured
from handrail.cli.token.key_files import identity, read_token, tokens
from handrail.cli.token.rights import rights_lines
from handrail.core.context import Principal
from handrail.core.errors import BusError
from handrail.core.redact import Secret
from handrail.node.bus.request import Caller
from handrail.node.tokens.token import CapabilityToken, parse_token
from handrail.node.tokens.token_store import TokenStore


@click.command(
    "show",
    epilog=examples("handrail token show reader.token", "handrail token show reader.token --json | jq .claims.scope"),
)
@click.argument("file")
@configured
def command(setup: CliSetup, file: str) -> None:
    """Show what the token in FILE is for, and whether this node would take it now. `-` reads it from the input.

    The exit code is 0 if it is good, and 1 if not.
    """
    secret = read_token(file)
    token = parse_token(secret)
    with tokens(setup) as store:
        why = _judged(setup, store, token, secret)
        calls = store.calls(token.id)
    if setup.view.as_json:
        answer_json({"good": why is None, "why": why, "calls": calls, "claims": token.to_dict()})
    else:
        _tell(setup, token, why, calls)
    if why is not None:
        raise SystemExit(1)


def _judged(setup: CliSetup, store: TokenStore, token: CapabilityToken, secret: Secret) -> str | None:
    """Why this node would not take it from its owner, or None."""
    admission = admission_of(setup.config.node, identity(setup).node_id, store)
    try:
        asyncio.run(admission.identify(Caller(principal=Principal(token.subject)), secret))
    except BusError as error:
        return error.message
    return None


def _tell(setup: CliSetup, token: CapabilityToken, why: str | None, calls: int) -> None:
    answer("good" if why is None else f"not good: {text.printable(why)}", "good" if why is None else "bad")
    answer(
        f"id      {text.printable(token.id)}"
        f"{'' if token.parent is None else f', made from {text.printable(token.parent)}'}"
    )
    answer(f"issuer  {text.printable(token.issuer)}")
    answer(f"for     {'whoever has it' if token.is_bearer else text.printable(token.subject)}, as {token.trust}")
    answer(f"in      {'any community' if token.audience is None else text.printable(token.audience)}")
    answer(f"from    {setup.view.when(token.not_before * 1000)}")
    answer(f"until   {setup.view.when(token.expires_at * 1000)}")
    for line in rights_lines(token.scope):
        answer(f"        {line}")
    if token.scope.max_calls_total is not None:
        answer(f"        {text.count_text(calls, 'call')} so far")
