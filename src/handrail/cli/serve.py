"""`handrail serve`: this node over HTTP, for other nodes, for pages and for any OpenAI or Anthropic client."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import click

from handrail.cli.consent import person_here
from handrail.cli.groups import examples
from handrail.cli.setup import Chosen, Setup, configured, with_tools
from handrail.cli.view import tell
from handrail.config.values import Config
from handrail.core.errors import UsageError
from handrail.core.redact import Secret


@click.command(
    "serve",
    epilog=examples(
        "handrail serve                          at 127.0.0.1:8420, with a token that it prints",
        "handrail serve --listen 127.0.0.1:0     at any free port",
        "handrail serve --nats nats://127.0.0.1:4222 --tools tools.py",
    ),
)
@click.option("--listen", metavar="HOST:PORT", help="Where to listen. Default: [node] host and port, 127.0.0.1:8420.")
@click.option("--token-file", type=click.Path(path_type=Path), metavar="PATH", help="Write the token there, unprinted.")
@click.option("--no-token", is_flag=True, help="Ask nobody for a token. Every program on this machine may then call.")
@click.option("--nats", metavar="URL", help="Also serve on this NATS server, and use what other nodes offer there.")
@click.option(
    "--rule", "rules", multiple=True, metavar="RULE", help="A rule beside the configured ones, as 'deny io:write_*'."
)
@with_tools
@configured
def command(
    setup: Setup,
    listen: str | None,
    token_file: Path | None,
    no_token: bool,
    nats: str | None,
    rules: tuple[str, ...],
    tools: tuple[str, ...],
) -> None:
    """Serve this node: its tools and models, over HTTP.

    POST /bus/v1/call calls a capability, as JSON, as server-sent events or over a WebSocket. /v1/chat/completions and
    /v1/messages speak as OpenAI and Anthropic do: give a client this address and the token. /capabilities lists what
    there is; /health, /ready, /metrics and /trace/recent are for operators. Only this machine can reach it, unless
    --listen says otherwise. Ctrl-C or SIGTERM ends it when the calls under way have ended.
    """
    setup = setup.adjusted(lambda config: node_settings(config, listen, nats, no_token=no_token))
    asyncio.run(_serve(setup, Chosen(None, tools, rules), token_file))


def node_settings(config: Config, listen: str | None, nats: str | None, *, no_token: bool = False) -> Config:
    """The configuration with what was said on the command line."""
    node = config.node
    if listen is not None:
        host, port = address(listen)
        node = replace(node, host=host, port=port)
    if nats is not None:
        node = replace(node, nats=nats)
    return replace(config, node=replace(node, token_required=False) if no_token else node)


def address(written: str) -> tuple[str, int]:
    """Raises:
    UsageError: It is no HOST:PORT.
    """
    host, _, port = written.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"{written!r} is no HOST:PORT; write 127.0.0.1:8420")
    return host.strip("[]") or "127.0.0.1", int(port)


async def _serve(setup: Setup, chosen: Chosen, token_file: Path | None) -> None:
    from handrail.app.network import open_node
    from handrail.server.serving import serve

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    wanted = chosen.wanted(setup.config)
    node = setup.config.node
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(
            open_node(setup.config, setup.journal, wanted, person_here(ask=False), adjust=setup.adjust)
        )
        if node.nats is not None:
            await stack.enter_async_context(opened.door())
            tell(f"On NATS, in the community {node.community!r}")
        token = opened.session_token() if node.token_required else None
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # from here on it is how a server is told to end, and it does
        await serve(opened.server(), host=node.host, port=node.port, ready=lambda url: _say(url, token, token_file))


def _say(url: str, token: Secret | None, file: Path | None) -> None:
    tell(f"Serving at {url}")
    if token is None:
        return
    if file is None:
        tell(f"Token, good for a day: {token!s}")
        return
    _write(file, token)
    tell(f"Token, good for a day, in {file}")


def _write(file: Path, token: Secret) -> None:
    """For its owner only, from the first byte on."""
    import os

    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(f"{token!s}\n")
