"""`handrail worker`: these tools and services for the nodes on a NATS server, and nothing that listens here."""

from __future__ import annotations

import asyncio
import signal
import sys

from handrail.cli.lazy_groups import cli_command
from handrail.cli.node.serve import node_settings
from handrail.cli.output.view import answer_json, tell
from handrail.cli.run_options import CliSetup, RunOptions, configured, nats_option, rule_option, with_tools
from handrail.cli.terminal.person import terminal_person


@cli_command(
    "worker",
    "handrail worker --nats nats://127.0.0.1:4222 --tools tools.py",
    "handrail worker                          what [node] and [services] of handrail.toml say",
)
@nats_option("The NATS server. Default: [node] nats.")
@rule_option("deny io:write_*")
@with_tools
@configured
def command(setup: CliSetup, nats: tuple[str, ...], rules: tuple[str, ...], tools: tuple[str, ...]) -> None:
    """Serve these tools to the nodes on a NATS server.

    The services of the configuration are served too, to the nodes of its community. Several workers that offer the
    same share its calls. One that is busy says so, and another is asked; one that dies is noticed within seconds, and a
    call that it may have carried out is reported as in doubt and never made twice. SIGTERM or Ctrl-C ends it when the
    calls under way have ended.
    """
    setup = setup.adjusted(lambda config: node_settings(config, None, nats))
    asyncio.run(_work(setup, RunOptions(None, tools, rules)))


async def _work(setup: CliSetup, chosen: RunOptions) -> None:
    from handrail.app.network_node import open_node

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
        await _told_to_end()
        tell("Ending when the calls under way have ended")


async def _told_to_end() -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, told.set)
    try:
        await told.wait()
    finally:
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
