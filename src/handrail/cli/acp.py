"""`handrail acp`: the agent of an editor that speaks the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.cli.lazy_groups import cli_command
from handrail.cli.run_options import CliSetup, RunOptions, configured, rule_option, with_model, with_tools
from handrail.cli.terminal.person import terminal_person
from handrail.cli.terminal.signals import told_to_end
from handrail.config.values import Config
from handrail.core.errors import MissingExtra
from handrail.mcp.values import Endpoint

if TYPE_CHECKING:
    from handrail.config.mcp import McpSettings
    from handrail.desk.desk import Desk


@cli_command(
    "acp",
    "handrail acp                            what an editor starts; it speaks JSON-RPC on stdin and stdout",
    "handrail acp -m openai:gpt-5 --tools tools.py",
)
@with_model
@with_tools
@rule_option("deny io:write_*")
@configured
def command(setup: CliSetup, **chosen: Any) -> None:
    """Run as an agent for editors (Agent Client Protocol).

    Zed, JetBrains, Neovim and others start this command. Its sessions are conversations of this folder, so the page and
    the terminal program show them too. Before a tool changes something, the editor asks you for permission. MCP servers
    that the editor names are used in addition to the configured ones.
    """
    if importlib.util.find_spec("acp") is None:
        raise MissingExtra("the agent of an editor", "acp")
    logging.basicConfig(level=logging.WARNING, format="%(message)s")  # on stderr; stdout belongs to the protocol
    asyncio.run(_serve(setup, RunOptions(**chosen)))


async def _serve(setup: CliSetup, chosen: RunOptions) -> None:
    from acp import run_agent

    from handrail.desk.acp.agent import EditorAgent
    from handrail.desk.desk import open_desk

    setup = setup.adjusted(lambda config: _with_model(config, chosen.model))

    @asynccontextmanager
    async def desk_with(servers: Mapping[str, McpSettings]) -> AsyncIterator[Desk]:
        theirs = setup.adjusted(lambda config: replace(config, mcp={**servers, **config.mcp}))

        async def named_by_editor(name: str, endpoint: Endpoint, why: str) -> bool:
            return name in servers and servers[name].endpoint == endpoint

        person = replace(terminal_person(ask=False), consent=named_by_editor)
        wanted = chosen.wanted(setup.config)
        async with open_desk(theirs.config, setup.journal, wanted, person, adjust=theirs.adjust) as desk:
            yield desk

    file = setup.config.file
    async with EditorAgent(desk_with, Path.cwd() if file is None else file.parent.absolute()) as agent:
        # Closing, resuming and forking sessions are called unstable by the package, which would warn at each.
        serving = asyncio.create_task(run_agent(agent, use_unstable_protocol=True))
        told = asyncio.create_task(told_to_end())
        await asyncio.wait((serving, told), return_when=asyncio.FIRST_COMPLETED)
        for task in (serving, told):
            task.cancel()
        await asyncio.wait((serving, told))


def _with_model(config: Config, model: str | None) -> Config:
    return config if model is None else replace(config, default_model=model)
