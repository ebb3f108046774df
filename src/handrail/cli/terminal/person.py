"""The person at the command line: what they are told, and what they are asked before a server is started."""

from __future__ import annotations

import sys

from handrail.app import Person
from handrail.app.person import endpoint_description, unpinned_reason
from handrail.cli import text
from handrail.cli.confirm.answers import login_name
from handrail.cli.output.view import tell
from handrail.execute.terminal.line_reader import read_word
from handrail.mcp.values import Endpoint, StdioEndpoint


def terminal_person(*, ask: bool = True, patient: bool = False) -> Person:
    """Somebody who can be asked if there is a terminal, and is told things beside the answer."""
    can_ask = ask and sys.stdin.isatty() and sys.stderr.isatty()
    return Person(by=login_name(), tell=_tell, consent=_consent if can_ask else None, patient=patient)


def _tell(line: str) -> None:
    tell(text.printable(line))


async def _consent(server: str, endpoint: Endpoint, why: str) -> bool:
    describe_server_start(server, endpoint, why)
    return await read_word("Allow it, now and later? [y/N] ") in ("y", "yes")


def describe_server_start(server: str, endpoint: Endpoint, why: str) -> None:
    """Exactly what would be run, for a person to look at."""
    verb = "wants to run" if isinstance(endpoint, StdioEndpoint) else "wants to speak to"
    tell()
    tell(f"MCP server {text.printable(server)!r} {verb}: {text.printable(endpoint_description(endpoint))}")
    tell(f"You are asked because {text.printable(why)}.")
    if isinstance(endpoint, StdioEndpoint):
        tell("It can do anything on this machine that you can.")
    else:
        tell("It receives what your model passes to its tools, and your model reads their results.")
    if (warning := unpinned_reason(endpoint)) is not None:
        tell(f"Beware: {text.printable(warning)}.")
