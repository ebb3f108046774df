"""`handrail token list`: the tokens that this node issued."""

from __future__ import annotations

import click

from handrail.cli import text
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import TableColumn, answer_json, table, tell
from handrail.cli.run_options import CliSetup, configured
from handrail.cli.token.key_files import tokens
from handrail.core.ports import SystemClock
from handrail.node.tokens.token_store import IssuedToken

_COLUMNS = (
    TableColumn("token"),
    TableColumn("state"),
    TableColumn("until"),
    TableColumn("calls", right=True),
    TableColumn("for"),
    TableColumn("can", cut=True),
)
_STYLES = {"good": "green", "revoked": "red", "ended": "dim"}


@click.command("list", epilog=examples("handrail token list", "handrail token list --json | jq -r .claims.jti"))
@click.option("--all", "every", is_flag=True, help="Also those that have ended, as long as they are remembered.")
@configured
def command(setup: CliSetup, every: bool) -> None:
    """List the tokens that this node issued and that have not ended. The tokens themselves are kept nowhere."""
    now = SystemClock().now() // 1000
    with tokens(setup) as store:
        entries = [entry for entry in store.issued() if every or entry.token.expires_at > now]
    if setup.view.as_json:
        for entry in entries:
            answer_json({"state": _state(entry, now), "calls": entry.calls, "claims": entry.token.to_dict()})
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
