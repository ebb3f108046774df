"""`handrail token issue`, `list`, `show` and `revoke`: what others may call here."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, cast

import click

from handrail.app.network_node import admission_of
from handrail.cli import text
from handrail.cli.ids import resolve_id
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import answer, answer_json, columns, table, tell, with_output_file
from handrail.cli.run_options import CliSetup, configured
from handrail.cli.token.key_files import identity, read_token, tokens
from handrail.core.context import Principal
from handrail.core.errors import BusError, UsageError
from handrail.core.ports import SystemClock
from handrail.core.redact import Secret
from handrail.node.bus.request import Caller
from handrail.node.tokens.identity import NODE_ID
from handrail.node.tokens.patterns import EVERYTHING
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.token import ANYBODY, DEFAULT_TTL, LONGEST_TTL, CapabilityToken, Lent, issue, parse_token
from handrail.node.tokens.token_store import IssuedToken, TokenStore

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@cli_command(
    "issue",
    "handrail token issue --can 'rag.*@1.*' --param corpus=docs,faq --rate 60 > reader.token",
    "handrail token issue --can '*' --for ed25519:… --ttl 1d > friend.token",
    "handrail token issue --from friend.token --can 'llm.chat@2.*' --calls 100 > short.token",
)
@click.option(
    "--can",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="What the token allows, such as rag.query@1.0; can be given several times.",
)
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE,…",
    help="Every call must have NAME with one of these values. rag.*:NAME applies to those capabilities only.",
)
@click.option(
    "--for",
    "subject",
    default=ANYBODY,
    metavar="NODE",
    help="The only node that may use the token. Default: any holder.",
)
@click.option(
    "--ttl", metavar="TIME", help="How long the token is valid: 90s, 10m, 1h, 1d. Default: 1h; maximum: one day."
)
@click.option("--rate", type=click.IntRange(1), metavar="N", help="The maximum number of calls per minute.")
@click.option("--calls", type=click.IntRange(1), metavar="N", help="The maximum number of calls in total.")
@click.option(
    "--trust",
    type=click.Choice(["member", "trusted"]),
    default="member",
    show_default=True,
    help="The trust level of the holder.",
)
@click.option("--from", "source", metavar="FILE", help="Pass on a part of the token in this file, or - for stdin.")
@configured
@with_output_file
def issue_token(
    setup: CliSetup,
    patterns: tuple[str, ...],
    params: tuple[str, ...],
    subject: str,
    ttl: str | None,
    rate: int | None,
    calls: int | None,
    trust: str,
    source: str | None,
) -> None:
    """Issue a token for the capabilities that --can names: `rag.query@1.0`, `rag.*@1.*`, or `*`.

    The token is written to stdout and nowhere else: whoever reads it can use it, unless it is issued --for one node.
    What it allows is written to stderr. With --from, the token has the rights of another token, or the part of them
    that you ask for, and expires with it.
    """
    if not patterns and source is None:
        raise UsageError("say what the token may call: --can 'rag.*@1.*', or --can '*' for everything")
    constraints = dict(map(_constraint, params))
    parent = None if source is None else parse_token(read_token(source))
    whole = Scope.of([EVERYTHING]) if parent is None else parent.scope
    seconds = None if ttl is None else _seconds(ttl)
    with tokens(setup) as store:
        token, secret = issue(
            identity(setup),
            store,
            whole.narrowed(patterns or None, constraints, rate, calls),
            subject=subject,
            audience=setup.config.node.community,
            ttl=seconds,
            parent=parent,
            trust=cast(Lent, trust),
        )
    _print_issued(setup, token, secret)


def _print_issued(setup: CliSetup, token: CapabilityToken, secret: str) -> None:
    if setup.view.wrote_json({"token": str(secret), "claims": token.to_dict()}):
        return
    answer(str(secret))
    tell(f"{token.id}, until {setup.view.when(token.expires_at * 1000)}, for {_holder(token)}")
    for line in rights_lines(token.scope):
        tell(f"  {line}")


def _holder(token: CapabilityToken) -> str:
    return "any holder" if token.is_bearer else text.printable(token.subject)


def _constraint(said: str) -> tuple[str, list[Any]]:
    name, equals, values = said.partition("=")
    if not equals or not name or not values:
        raise UsageError(f"--param {said!r} has no value; write it as corpus=docs,faq")
    return name, [_value(each) for each in values.split(",")]


def _value(said: str) -> Any:
    """Numbers, true, false and null are what they look like; anything else, and what is quoted, is text."""
    if not re.fullmatch(r'-?[0-9.]+|true|false|null|".*"', said):
        return said
    try:
        return json.loads(said)
    except ValueError:
        return said


def _seconds(said: str) -> int:
    found = re.fullmatch(r"([0-9]{1,6})([smhd]?)", said)
    seconds = 0 if found is None else int(found[1]) * _UNITS[found[2] or "s"]
    if not 1 <= seconds <= LONGEST_TTL:
        raise UsageError(
            f"--ttl {said!r} is not a time of at most a day; write 90s, 10m or 1h (default: {DEFAULT_TTL}s)"
        )
    return seconds


_COLUMNS = columns("token", "state", "until", "calls", "for", "can", right=("calls",), cut="can")
_STYLES = {"good": "green", "revoked": "red", "ended": "dim"}


@cli_command("list", "handrail token list", "handrail token list --json | jq -r .claims.jti")
@click.option("--all", "every", is_flag=True, help="Include expired tokens that are still recorded.")
@configured
@with_output_file
def list_tokens(setup: CliSetup, every: bool) -> None:
    """List the tokens that this node issued and that have not expired. The tokens themselves are not stored."""
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
@with_output_file
def show(setup: CliSetup, file: str) -> None:
    """Show what the token in FILE allows, and whether this node accepts it now. `-` reads it from stdin.

    The exit code is 0 if the token is valid, otherwise 1.
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
    answer("good" if why is None else f"not valid: {text.printable(why)}", "good" if why is None else "bad")
    answer(
        f"id      {text.printable(token.id)}"
        f"{'' if token.parent is None else f', made from {text.printable(token.parent)}'}"
    )
    answer(f"issuer  {text.printable(token.issuer)}")
    answer(f"for     {'any holder' if token.is_bearer else text.printable(token.subject)}, as {token.trust}")
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
        lines.append(f"{text.count_text(scope.rate_limit_per_minute, 'call')} per minute at most")
    if scope.max_calls_total is not None:
        lines.append(f"{text.count_text(scope.max_calls_total, 'call')} in total at most")
    return lines


@cli_command(
    "revoke", "handrail token revoke 01HF7YAT", "handrail token revoke ed25519:…      every token of that node"
)
@click.argument("id")
@configured
def revoke(setup: CliSetup, id: str) -> None:
    """Revoke the token with this ID, and every token that was made from it. This applies from the next call on.

    The beginning of an id is enough. The id of a node blocks that node and every token that it issued.
    """
    with tokens(setup) as store:
        whole = id if NODE_ID.fullmatch(id) else _token_id(store, id)
        store.revoke(whole)
    setup.view.reply({"id": whole, "revoked": True}, f"{text.printable(whole)} is revoked")


def _token_id(store: TokenStore, id: str) -> str:
    return resolve_id(id, [entry.token.id for entry in store.issued()], "token")
