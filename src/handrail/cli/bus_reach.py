"""How a command reaches other nodes: at an address, or on a NATS server."""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from handrail.bus.port import Bus
from handrail.cli.setup import Setup, configured
from handrail.core.errors import UsageError

VARIABLE = "HANDRAIL_TOKEN"


@dataclass(frozen=True, slots=True)
class Reach:
    setup: Setup
    at: str | None
    nats: str | None
    token_file: Path | None

    @property
    def token(self) -> str | None:
        """Raises:
        UsageError: The file with it cannot be read.
        """
        if self.token_file is None:
            return os.environ.get(VARIABLE) or None
        try:
            return self.token_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise UsageError(f"the token in {str(self.token_file)!r} cannot be read: {error.strerror}") from error

    @asynccontextmanager
    async def bus(self) -> AsyncIterator[Bus]:
        node, token = self.setup.config.node, self.token
        if self.nats is not None:
            from handrail.bus.nats.bus import NatsBus
            from handrail.bus.tokens.identity import Identity

            identity = Identity.load_or_create(node.identity or self.setup.journal.parent / "identity.key")
            nats = NatsBus(self.nats, community=node.community, token=token, identity=identity)
            try:
                yield nats
            finally:
                await nats.aclose()
            return
        from handrail.bus.http.bus import HttpBus

        http = HttpBus(self.at or f"http://{node.host}:{node.port}", token=token)
        try:
            yield http
        finally:
            await http.aclose()


def reaching(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say where the other nodes are, as a `Reach`."""

    def with_reach(setup: Setup, at: str | None, nats: str | None, token_file: Path | None, **options: Any) -> None:
        if at is not None and nats is not None:
            raise UsageError("--at is one node and --nats is all of them; take one")
        function(Reach(setup, at, nats, token_file), **options)

    functools.update_wrapper(with_reach, function)
    path = click.Path(path_type=Path)
    for option in (
        click.option("--token-file", type=path, metavar="PATH", help=f"The file with the token. Default: ${VARIABLE}."),
        click.option("--nats", metavar="URL", help="The nodes on this NATS server."),
        click.option("--at", metavar="URL", help="The node at this address. Default: that of [node] in handrail.toml."),
    ):
        with_reach = option(with_reach)
    return configured(with_reach)
