"""`handrail serve` and `worker`: this node over HTTP, for people, other nodes and clients of models, or on NATS."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import answer_json, tell
from handrail.cli.run_options import CliSetup, RunOptions, configured, nats_option, rule_option, with_tools
from handrail.cli.terminal.person import terminal_person
from handrail.cli.terminal.signals import rereading, told_to_end
from handrail.config.values import Config
from handrail.core.errors import BusError, UsageError
from handrail.core.redact import Secret
from handrail.http.request_guard import bracket_ipv6

if TYPE_CHECKING:
    from handrail.app.network_node import NetworkNode


_log_option = click.option(
    "--log", type=click.Choice(("text", "json")), help="The format of the log on stderr. Default: [node] log, text."
)
_AGAIN = 1.0
"""Seconds between two attempts to be on NATS."""


@cli_command(
    "serve",
    "handrail serve                          a page at 127.0.0.1:8420, with a token in its address",
    "handrail serve --listen 127.0.0.1:0     at any free port",
    "handrail serve --nats nats://127.0.0.1:4222 --tools tools.py",
)
@click.option(
    "--listen", metavar="HOST:PORT", help="The address to listen on. Default: host and port of [node], 127.0.0.1:8420."
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Write the token to this file instead of printing it.",
)
@click.option(
    "--no-token", is_flag=True, help="Require no token. Every program on this machine can make calls and approve them."
)
@click.option("--no-page", is_flag=True, help="Serve no page, nor the capabilities that only the page needs.")
@_log_option
@nats_option("Also serve on this NATS server, and use what other nodes offer there.")
@rule_option("deny io:write_*")
@with_tools
@configured
def command(
    setup: CliSetup,
    listen: str | None,
    token_file: Path | None,
    no_token: bool,
    no_page: bool,
    log: str | None,
    nats: tuple[str, ...],
    rules: tuple[str, ...],
    tools: tuple[str, ...],
) -> None:
    """Serve a page, your tools and your models over HTTP.

    Open the printed address in a browser. POST /bus/v1/call calls a capability, as JSON, as server-sent events or over
    a WebSocket. /v1/responses, /v1/chat/completions and /v1/messages are the APIs of OpenAI and Anthropic: give a
    client this address and the token. /capabilities lists what the node offers; /health, /ready, /metrics and
    /trace/recent are for operators. Only this machine can connect, unless --listen says otherwise. Ctrl-C or SIGTERM
    stops the node after the running calls have ended; SIGHUP reloads the configuration.
    """
    setup = setup.adjusted(
        lambda config: _paged(node_settings(config, listen, nats, no_token=no_token, log=log), not no_page)
    )
    asyncio.run(_serve(setup, RunOptions(None, tools, rules), token_file))


def node_settings(
    config: Config, listen: str | None, nats: Sequence[str] = (), *, no_token: bool = False, log: str | None = None
) -> Config:
    """The configuration with what was said on the command line."""
    node = config.node
    if listen is not None:
        host, port = listen_address(listen)
        node = replace(node, host=host, port=port)
    if nats:
        node = replace(node, nats=tuple(nats))
    if log is not None:
        node = replace(node, log="json" if log == "json" else "text")
    return replace(config, node=replace(node, token_required=False) if no_token else node)


def _paged(config: Config, page: bool) -> Config:
    services = config.services
    return config if page else replace(config, services=replace(services, off=services.off | {"page"}))


def listen_address(written: str, example: str = "127.0.0.1:8420") -> tuple[str, int]:
    """The host and the port in `HOST:PORT`.

    Raises:
        UsageError: It is none.
    """
    host, _, port = written.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"{written!r} is not of the form HOST:PORT; write {example}")
    return host.strip("[]") or "127.0.0.1", int(port)


async def _serve(setup: CliSetup, chosen: RunOptions, token_file: Path | None) -> None:
    from handrail.app.app import cancel_and_wait
    from handrail.app.network_node import open_node
    from handrail.desk.service.desk_service import open_desk_node
    from handrail.node.server.serving import serve

    _begin_log(setup.config)
    wanted = chosen.wanted(setup.config)
    node = setup.config.node
    async with AsyncExitStack() as stack:
        opening = open_desk_node if setup.config.services.has("page") else open_node
        opened = await stack.enter_async_context(
            opening(setup.config, setup.journal, wanted, terminal_person(ask=False), adjust=setup.adjust)
        )
        if node.nats is not None:
            stack.push_async_callback(cancel_and_wait, asyncio.create_task(_on_nats(opened)))
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # from here on it is how a server is told to end, and it does
        said = partial(_say, opened=opened, file=token_file, as_json=setup.view.as_json)
        with rereading(opened.reload):
            await serve(opened.server(), host=node.host, port=node.port, metrics=node.metrics, ready=said)


def _begin_log(config: Config) -> None:
    if config.node.log == "text":
        logging.basicConfig(level=logging.WARNING, format="%(message)s")
        return
    from handrail.cli.output.json_log import log_in_json

    log_in_json()


async def _on_nats(opened: NetworkNode) -> None:
    """Serve there too, as soon as the server is there; what is served over HTTP does not wait for it."""
    told = False
    while True:
        try:
            async with opened.door():
                tell(f"On NATS, in the community {opened.config.node.community!r}")
                await asyncio.Event().wait()
        except BusError as error:
            if not told:
                tell(f"Not on NATS yet: {error.message}; handrail keeps trying")
            told = True
        await asyncio.sleep(_AGAIN)


def _say(url: str, *, opened: NetworkNode, file: Path | None, as_json: bool) -> None:
    """What a caller needs to know. A token is made only now, when it is good for something."""
    node = opened.config.node
    url = url.replace(bracket_ipv6(node.host), bracket_ipv6(node.near), 1)
    token = opened.session_token() if node.token_required else None
    if token is not None and file is not None:
        _write(file, token)
    if as_json:
        where = {} if token is None else {"token": str(token)} if file is None else {"token_file": str(file)}
        page = {"page": _page(url, token if file is None else None)} if opened.page else {}
        answer_json({"url": url, "node_id": opened.identity.node_id, **page, **where})
        sys.stdout.flush()
        return
    if node.log == "json" and file is None:
        token = None  # who reads logs is not who may call; `--token-file` or `handrail token issue` gives one
    if opened.page:
        asks = "" if token is None or file is None else ", which will ask for the token"
        tell(f"Page: {_page(url, token if file is None else None)}{asks}")
    tell(f"Serving at {url}")
    if node.near != node.host:
        names = ", ".join(node.hosts) or "none; name this machine there"
        tell(f"Other machines reach it by the names in `hosts` under [node]: {names}")
    if token is not None:
        tell(f"Token, valid for a day: {token!s}" if file is None else f"Token, valid for a day, in {file}")


def _page(url: str, token: Secret | None) -> str:
    """The address of the page. The part behind `#` stays in the browser, and the page takes it out of the address."""
    return f"{url}/" if token is None else f"{url}/#token={token!s}"


def _write(file: Path, token: Secret) -> None:
    """Writes a file that only its owner can read, from the first byte on.

    Raises:
        UsageError: It cannot be written.
    """
    try:
        file.unlink(missing_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(f"{token!s}\n")
    except OSError as error:
        why = f"the token cannot be written to {str(file)!r}: {error.strerror}"
        raise UsageError(f"{why}; name another file with --token-file") from error


@cli_command(
    "worker",
    "handrail worker --nats nats://127.0.0.1:4222 --tools tools.py",
    "handrail worker                          with [node] and [services] of handrail.toml",
)
@_log_option
@nats_option("The NATS server. Default: [node] nats.")
@rule_option("deny io:write_*")
@with_tools
@configured
def worker(
    setup: CliSetup, log: str | None, nats: tuple[str, ...], rules: tuple[str, ...], tools: tuple[str, ...]
) -> None:
    """Serve these tools to other nodes over a NATS server.

    The configured services are served too, to the nodes of this node's community. Several workers that offer the same
    capability share its calls. A worker that is busy says so, and another one is asked. A worker that dies is noticed
    within seconds; a call that it may have carried out is reported as in doubt and never made twice. SIGTERM or Ctrl-C
    stops the worker after the running calls have ended.
    """
    setup = setup.adjusted(lambda config: node_settings(config, None, nats, log=log))
    asyncio.run(_work(setup, RunOptions(None, tools, rules)))


async def _work(setup: CliSetup, chosen: RunOptions) -> None:
    from handrail.app.network_node import open_node

    if setup.config.node.log == "json":
        _begin_log(setup.config)
    person = terminal_person(ask=False)
    async with (
        open_node(setup.config, setup.journal, chosen.wanted(setup.config), person, adjust=setup.adjust) as node,
        node.door(),
    ):
        offered = [offer for offer in await node.bus.discover() if offer.local]
        community, node_id = node.config.node.community, node.identity.node_id
        if setup.view.as_json:
            answer_json({"node_id": node_id, "community": community, "capabilities": len(offered)})
            sys.stdout.flush()
        else:
            tell(f"Serving {len(offered)} capabilities to {community!r} as {node_id}")
        with rereading(node.reload):
            await told_to_end()
        tell("Stopping after the running calls have ended")
