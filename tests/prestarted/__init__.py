"""Python programs that tests start, forked off one process that has imported what they all import.

Most of what such a program costs is what it imports: about a second of a processor each time. `command()` stands
where `sys.executable` would, before `-W error`, `-m module` or the path of a script: it starts a tiny client, which
hands its arguments, folder, environment and standard streams to the one process; that forks a child for them, in which
they run as `python` runs them. The client passes signals on and ends as the child does, and when the client is killed,
so is the child. Tests of how a program starts or is installed, or who its parent is, start it themselves.
"""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
PRELOADED = (
    "handrail.cli.mcp",
    "handrail.app",
    "handrail.journal",
    "handrail.mcp.client.ensemble",
    "handrail.mcp.server.build",
    "handrail.mcp.server.stdio",
    "mcp.client.stdio",
    "mcp.server.mcpserver",
    "uvicorn",
)
"""What all of them import."""
AGENT = ("acp", "handrail.cli.root", "handrail.cli.terminal.person", "handrail.desk.acp.agent")
"""What `handrail acp` imports besides."""
NODE = (
    "handrail.app.network_node",
    "handrail.cli.root",
    "handrail.cli.terminal.person",
    "handrail.desk.service.desk_service",
    "handrail.http.uvicorn_server",
    "handrail.node.gateways.openapi",
    "handrail.node.gateways.request_handler",
    "handrail.node.server.metrics",
)
"""What `handrail serve` imports besides."""


def command(*besides: str) -> tuple[str, ...]:
    """What to write in place of `sys.executable`. What such a program imports besides is imported before its first."""
    return *_client(), ",".join(besides)


@cache
def _client() -> tuple[str, ...]:
    folder = tempfile.mkdtemp(prefix="handrail-prestarted-")
    address = f"{folder}/socket"
    host = subprocess.Popen(
        [sys.executable, "-m", "tests.prestarted.host", address, *PRELOADED],
        cwd=_HERE.parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    atexit.register(_end, host, folder)
    assert host.stdout is not None
    assert host.stdout.readline() == b"ready\n"
    return sys.executable, "-I", "-S", str(_HERE / "client.py"), address


def _end(host: subprocess.Popen[bytes], folder: str) -> None:
    host.communicate()
    shutil.rmtree(folder, ignore_errors=True)
