"""`handrail mcp serve`: these tools, and the model with them, for any MCP client."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

import handrail
from handrail.cli.lazy_groups import cli_command
from handrail.cli.mcp.proxy_entry import handrail_command
from handrail.cli.output.view import tell
from handrail.cli.run_options import CliSetup, RunOptions, configured, rule_option, with_tools
from handrail.cli.serve import listen_address
from handrail.cli.terminal.person import terminal_person
from handrail.config.mcp import ConverseSettings, ServeSettings
from handrail.core.errors import UsageError
from handrail.mcp.import_errors import import_failure

if TYPE_CHECKING:
    from handrail.mcp.server.definition import FirstWords, McpServerDefinition


@cli_command(
    "serve",
    "handrail mcp serve                     over standard input and output",
    "handrail mcp serve --http 127.0.0.1:8765",
    "handrail mcp serve --converse --tools tools.py",
    "handrail mcp serve --offer search      find_tools and call_tool instead of hundreds",
)
@click.option("--stdio", is_flag=True, help="Use stdin and stdout, for a client that starts this command. The default.")
@click.option(
    "--http",
    metavar="[HOST:PORT]",
    is_flag=False,
    flag_value="127.0.0.1:0",
    help="Use streamable HTTP at this address.",
)
@click.option(
    "--offer",
    type=click.Choice(["all", "search"]),
    help="Offer all tools, or only find_tools and call_tool, for large catalogues. Default: [serve] offer, or all.",
)
@click.option("--converse/--no-converse", default=None, help="Also serve the model itself as a tool.")
@click.option(
    "--token", metavar="env:NAME", help="The environment variable with the token that HTTP callers must send."
)
@rule_option("allow io:read_*")
@with_tools
@configured
def command(
    setup: CliSetup,
    stdio: bool,
    http: str | None,
    offer: Literal["all", "search"] | None,
    converse: bool | None,
    token: str | None,
    rules: tuple[str, ...],
    tools: tuple[str, ...],
) -> None:
    """Serve the tools of this configuration to any MCP client: an editor, a desktop assistant, another handrail.

    Calls are checked, approved and recorded as everywhere; the client asks the person who approves. [serve] adds more:
    conversations, proofs, corpora, prompts, and `converse`, the model with its tools as one tool. Over HTTP only this
    machine can connect, unless HOST says otherwise and a token is set. If you start it in a terminal without --http, it
    prints what to write into the file of a client.
    """
    if stdio and http is not None:
        raise UsageError("--stdio and --http are two ways to serve; use only one of them")
    setup = setup.adjusted(lambda config: replace(config, serve=_settings(config.serve, offer, converse, token)))
    address = None if http is None else listen_address(http, "127.0.0.1:8765")
    try:
        asyncio.run(_serve(setup, RunOptions(None, tools, rules), address))
    except ImportError as error:
        raise import_failure(error, "serving MCP") from error


def _settings(
    serve: ServeSettings, offer: Literal["all", "search"] | None, converse: bool | None, token: str | None
) -> ServeSettings:
    if offer is not None:
        serve = replace(serve, offer=offer)
    if converse is not None:
        serve = replace(serve, converse=(serve.converse or ConverseSettings()) if converse else None)
    if token is not None:
        if not token.startswith("env:"):
            raise UsageError("a token on a command line can be read by everybody; put it into a variable: env:NAME")
        if serve.tokens:
            raise UsageError("the file has a token for each caller (serve.tokens); leave --token out")
        serve = replace(serve, token=token)
    return serve


def _entry(setup: CliSetup) -> str:
    """What somebody should know who starts this by hand."""
    start = handrail_command()
    named = setup.config.file is not None and "--config" not in sys.argv
    words = [*sys.argv[1:], *(["--config", str(Path(str(setup.config.file)).absolute())] if named else [])]
    entry = {"handrail": {"command": start[0], "args": [*start[1:], *words]}}
    return (
        "This command speaks MCP over standard input and output, and an MCP client starts it."
        " Write this into the client's own file:\n"
        f'  "mcpServers": {json.dumps(entry)}\n'
        "Ctrl-C ends it; --http serves over HTTP instead."
    )


async def _serve(setup: CliSetup, chosen: RunOptions, address: tuple[str, int] | None) -> None:
    if address is not None:
        return await _serve_http(setup, chosen, *address)
    from handrail.mcp.server.stdio import open_stdio

    if sys.stdin.isatty():
        tell(_entry(setup))
    with open_stdio() as wire:
        # Servers are told what the client can do, so it is heard first.
        client = await wire.first_words()
        async with _opened(setup, chosen, client) as served:
            await wire.serve(served)


async def _serve_http(setup: CliSetup, chosen: RunOptions, host: str, port: int) -> None:
    from handrail.mcp.server.http import serve_http

    async with _opened(setup, chosen) as served:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # from here on it is how a server is told to end, and it does
        serve = setup.config.serve
        await serve_http(
            served,
            host=host,
            port=port,
            hosts=serve.hosts,
            origins=serve.origins,
            token=serve.secret(),
            ready=lambda url: tell(f"Serving at {url}"),
        )


def _opened(
    setup: CliSetup, chosen: RunOptions, client: FirstWords | None = None
) -> AbstractAsyncContextManager[McpServerDefinition]:
    from handrail.app.mcp_serving import open_served

    return open_served(
        setup.config,
        setup.journal,
        chosen.wanted(setup.config),
        terminal_person(ask=False, patient=True),
        version=handrail.__version__,
        adjust=setup.adjust,
        client=client,
    )
