"""`handrail token list`, `show` and `revoke`: the tokens that there are."""

from __future__ import annotations

import asyncio

import click

from handrail.app.network_node import admission_of
from handrail.cli import text
from handrail.cli.ids import resolve_id
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import answer, answer_json, columns, table, tell
from handrail.cli.run_options import CliSetup, configured
from handrail.cli.token.key_files import identity, read_token, tokens
from handrail.core.context import Principal
from handrail.core.errors import BusError
from handrail.core.ports import SystemClock
from handrail.core.redact import Secret
from handrail.node.bus.request import Caller
from handrail.node.tokens.identity import NODE_ID
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.token import CapabilityToken, parse_token
from handrail.node.tokens.token_store import IssuedToken, TokenStore

_COLUMNS = columns("token", "state", "until", "calls", "for", "can", right=("calls",), cut="can")
_STYLES = {"good": "green", "revoked": "red", "ended": "dim"}


@cli_command("list", "handrail token list", "handrail token list --json | jq -r .claims.jti")
@click.option("--all", "every", is_flag=True, help="Also those that have ended, as long as they are remembered.")
@configured
def list_tokens(setup: CliSetup, every: bool) -> None:
    """List the tokens that this node issued and that have not ended. The tokens themselves are kept nowhere."""
    now = SystemClock().now() // 1000
    with tokens(setup) as store:
        entries = [entry for entry in store.issued() if every or entry.token.expires_at > now]
    if setup.view.wrote_json(
        *({"state": _state(entry, now), "calls": entry.calls, "claims": entry.token.to_dict()} for entry in entries)
    ):
        return
    if not entries:
        tell("There are none; issue one with: handrail token issue --can 'rag.*@1.*'")
        return
    ids = setup.view.ids(entry.token.id for entry in entries)
    table(_COLUMNS, [_row(setup, entry, ids[entry.token.id], now) for entry in entries], _STYLES)


def _state(entry: IssuedToken, now: int) -> str:
    if entry.revoked:
        return "revoked"
    return "good" if entry.token.expires_at > now else "ended"


def _row(setup: CliSetup, entry: IssuedToken, id: str, now: int) -> list[str]:
    token = entry.token
    most = token.scope.max_calls_total
    return [
        id,
        _state(entry, now),
        setup.view.when(token.expires_at * 1000),
        "-" if most is None else f"{entry.calls}/{most}",
        "anybody" if token.is_bearer else text.printable(token.subject),
        " ".join(map(text.printable, token.scope.capabilities)),
    ]


@cli_command("show", "handrail token show reader.token", "handrail token show reader.token --json | jq .claims.scope")
@click.argument("file")
@configured
def show(setup: CliSetup, file: str) -> None:
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


def rights_lines(scope: Scope) -> list[str]:
    lines = [f"may call {', '.join(map(text.printable, scope.capabilities))}"]
    for name, values in scope.params_constraints.items():
        lines.append(f"with {text.printable(name)} = {' or '.join(text.inline(value) for value in values)}")
    if scope.rate_limit_per_minute is not None:
        lines.append(f"{text.count_text(scope.rate_limit_per_minute, 'call')} in a minute, at most")
    if scope.max_calls_total is not None:
        lines.append(f"{text.count_text(scope.max_calls_total, 'call')} in all, at most")
    return lines


@cli_command(
    "revoke", "handrail token revoke 01HF7YAT", "handrail token revoke ed25519:…      every token of that node"
)
@click.argument("id")
@configured
def revoke(setup: CliSetup, id: str) -> None:
    """Let the token of this ID be good no more, nor any that was made from it. It holds from the next call on.

    The beginning of an id is enough. The id of a node shuts out that node, and every token that it issued.
    """
    with tokens(setup) as store:
        whole = id if NODE_ID.fullmatch(id) else _token_id(store, id)
        store.revoke(whole)
    setup.view.reply({"id": whole, "revoked": True}, f"{text.printable(whole)} is revoked")


def _token_id(store: TokenStore, id: str) -> str:
    return resolve_id(id, [entry.token.id for entry in store.issued()], "token")
