"""`handrail token issue`: a new token, or a part of one."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import click

from handrail.cli import text
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import answer, tell
from handrail.cli.run_options import CliSetup, configured
from handrail.cli.token.issued import rights_lines
from handrail.cli.token.key_files import identity, read_token, tokens
from handrail.core.errors import UsageError
from handrail.node.tokens.patterns import EVERYTHING
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.token import ANYBODY, DEFAULT_TTL, LONGEST_TTL, CapabilityToken, Lent, issue, parse_token

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@cli_command(
    "issue",
    "handrail token issue --can 'rag.*@1.*' --param corpus=docs,faq --rate 60 > reader.token",
    "handrail token issue --can '*' --for ed25519:… --ttl 1d > friend.token",
    "handrail token issue --from friend.token --can 'llm.chat@2.*' --calls 100 > short.token",
)
@click.option(
    "--can", "patterns", multiple=True, metavar="PATTERN", help="What may be called, as rag.query@1.0; several times."
)
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE,…",
    help="Every call must say NAME, and one of these. rag.*:NAME asks that of those capabilities only.",
)
@click.option(
    "--for", "subject", default=ANYBODY, metavar="NODE", help="The only node that may use it. Default: whoever has it."
)
@click.option("--ttl", metavar="TIME", help="How long it is good: 90s, 10m, 1h, 1d. Default: 1h; at most a day.")
@click.option("--rate", type=click.IntRange(1), metavar="N", help="Calls in a minute, at most.")
@click.option("--calls", type=click.IntRange(1), metavar="N", help="Calls in all, at most.")
@click.option(
    "--trust", type=click.Choice(["member", "trusted"]), default="member", show_default=True, help="What it lends."
)
@click.option("--from", "source", metavar="FILE", help="Pass on a part of the token in this file, or - for the input.")
@configured
def command(
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
    """Print a token that may call what --can says: `rag.query@1.0`, `rag.*@1.*`, or `*`.

    The token goes to the standard output and nowhere else: whoever reads it can use it, unless it is --for a node. What
    it is for goes to the standard error. With --from it has the rights of another token, or the part of them that
    is asked for, and ends with it.
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
    _print(setup, token, secret)


def _print(setup: CliSetup, token: CapabilityToken, secret: str) -> None:
    if setup.view.wrote_json({"token": str(secret), "claims": token.to_dict()}):
        return
    answer(str(secret))
    tell(f"{token.id}, until {setup.view.when(token.expires_at * 1000)}, for {_holder(token)}")
    for line in rights_lines(token.scope):
        tell(f"  {line}")


def _holder(token: CapabilityToken) -> str:
    return "whoever has it" if token.is_bearer else text.printable(token.subject)


def _constraint(said: str) -> tuple[str, list[Any]]:
    name, equals, values = said.partition("=")
    if not equals or not name or not values:
        raise UsageError(f"--param {said!r} says nothing; write it as corpus=docs,faq")
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
        raise UsageError(f"--ttl {said!r} is no time up to a day; write 90s, 10m or 1h (default: {DEFAULT_TTL}s)")
    return seconds
