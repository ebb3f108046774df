"""The option `--nats`: the addresses of one or several NATS servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from handrail.node.nats.client_helpers import split_addresses

_SEVERAL = " Several, of which one is used at a time: given more than once, or with commas."


def nats_option(help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command `nats`, a tuple that is empty if the option was not given."""
    return click.option("--nats", metavar="URL", multiple=True, callback=_read, help=help + _SEVERAL)


def _read(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(address for text in given for address in split_addresses(text))
