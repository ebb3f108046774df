"""How a command reaches other nodes: at an address, or on a NATS server."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from handrail.app.node_state import opened_state
from handrail.cli.run_options import CliSetup, configured, nats_option
from handrail.core.errors import BusError, UsageError
from handrail.node.bus.interfaces import Bus
from handrail.node.bus.wire_codes import WIRE

VARIABLE = "HANDRAIL_TOKEN"


@dataclass(frozen=True, slots=True)
class BusConnectionOptions:
    setup: CliSetup
    at: str | None
    nats: tuple[str, ...]
    token_file: Path | None

    @property
    def token(self) -> str | None:
        """The token for the other nodes. A file that cannot be read is a `UsageError`."""
        if self.token_file is None:
            return os.environ.get(VARIABLE) or None
        try:
            return self.token_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise UsageError(f"the token in {str(self.token_file)!r} cannot be read: {error.strerror}") from error

    @asynccontextmanager
    async def bus(self) -> AsyncIterator[Bus]:
        """A bus to the other nodes. What they refuse or fail at is a `UsageError` that says what to do."""
        try:
            async with self._nats() if self.nats else self._http() as bus:
                yield bus
        except BusError as error:
            raise UsageError(f"{error}{self._advice(error)}") from error

    @asynccontextmanager
    async def _nats(self) -> AsyncIterator[Bus]:
        from handrail.node.nats.bus import NatsBus
        from handrail.node.nats.tls import tls_options

        # What goes wrong on the way is told once, by the call that fails of it.
        logging.getLogger("handrail.node.nats").addHandler(logging.NullHandler())
        with opened_state(self.setup.config, self.setup.journal) as state:
            identity = await asyncio.to_thread(state.identity, self.setup.config)
        node = self.setup.config.node
        options = tls_options(node.nats_cert, node.nats_key, node.nats_ca)
        nats = NatsBus(self.nats, community=node.community, token=self.token, identity=identity, options=options)
        async with aclosing(nats) as bus:
            yield bus

    @asynccontextmanager
    async def _http(self) -> AsyncIterator[Bus]:
        from handrail.http.request_guard import bracket_ipv6
        from handrail.node.http.bus import HttpBus

        node = self.setup.config.node
        at = self.at or f"{bracket_ipv6(node.near)}:{node.port}"
        try:
            http = HttpBus(at if "://" in at else f"http://{at}", token=self.token)
        except ValueError as error:
            raise UsageError(f"a node cannot be reached there: {error}; write --at http://127.0.0.1:8420") from error
        async with aclosing(http) as bus:
            yield bus

    def _advice(self, error: BusError) -> str:
        """What to do about it, and whether to ask again."""
        if error.outcome == "in_doubt":
            return "; it may have taken effect, so find out before you try again"
        if error.retry_after_ms is not None:
            return f"; try again in {error.retry_after_ms / 1000:g} s"
        if error.code == "unauthorized" and self.token is None:
            return f"; this command reads it from ${VARIABLE} or --token-file"
        if error.details.get("problems"):
            return "; handrail bus list NAME --json shows what it takes"
        if error.code == "partition":
            who = "a NATS server" if self.nats else "handrail serve"
            return f"; check that {who} runs there, or try again later"
        again = WIRE[error.code].again if error.code in WIRE else "no"
        return "; try again later" if again == "later" else ""


def with_bus_connection(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say where the other nodes are, as a `BusConnectionOptions`."""

    def with_reach(
        setup: CliSetup, at: str | None, nats: tuple[str, ...], token_file: Path | None, **options: Any
    ) -> None:
        if at is not None and nats:
            raise UsageError("--at is one node and --nats is all of them; use only one of them")
        function(BusConnectionOptions(setup, at, nats, token_file), **options)

    functools.update_wrapper(with_reach, function)
    path = click.Path(path_type=Path)
    for option in (
        click.option("--token-file", type=path, metavar="PATH", help=f"The file with the token. Default: ${VARIABLE}."),
        nats_option("The nodes on this NATS server."),
        click.option(
            "--at", metavar="URL", help="The address of the node. Default: the one in [node] of handrail.toml."
        ),
    ):
        with_reach = option(with_reach)
    return configured(with_reach)
