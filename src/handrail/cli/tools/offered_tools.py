"""The tools that models are offered, for commands that look at them and run none."""

from __future__ import annotations

import asyncio

from handrail.app.app import open_tools
from handrail.cli.terminal.person import terminal_person
from handrail.config.tools import tools_of
from handrail.config.values import Config
from handrail.tools.registry import RegisteredTools, registered


def offered_tools(config: Config, wanted: tuple[str, ...]) -> RegisteredTools:
    """What is wanted, or else what is configured; servers are connected to be asked."""
    return registered(*tools_of(config, wanted)) if wanted else asyncio.run(_offered(config))


async def _offered(config: Config) -> RegisteredTools:
    async with open_tools(config, terminal_person()) as tools:
        return tools
