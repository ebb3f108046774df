"""How a client's own file says that it should start handrail."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from handrail.config.client_files import ClientFile
from handrail.config.mcp_import import ImportedServer, proxy_words


def handrail_command() -> list[str]:
    """How this program was started, from any folder. A folder in which a client starts it adds no modules to it."""
    program = Path(sys.argv[0]).absolute()
    return [str(program)] if program.name == "handrail" else [sys.executable, "-P", "-m", "handrail"]


def proxy_entry(file: ClientFile, config: Path, journal: Path, servers: Iterable[ImportedServer]) -> dict[str, Any]:
    """The entry that serves a configuration, as this client writes entries. Everything has its whole path, since nobody
    knows where a client stands when it starts a program."""
    command, *args = handrail_command()
    words = [*args, "mcp", "serve", "--config", str(config.absolute()), "--journal", str(journal.absolute())]
    entry: dict[str, Any] = {"command": command, "args": words}
    if file.client == "vscode":
        entry = {"type": "stdio", **entry}
    if file.is_toml:
        names = sorted({name for server in servers for name in server.variables})
        return {**entry, "env_vars": names} if names else entry
    asked = {name: text for server in servers for name, text in server.inputs.items()}
    return {**entry, "env": asked} if asked else entry


def served_config(entry: Any) -> Path | None:
    """The configuration that an entry for handrail names."""
    words = proxy_words(entry)
    for word, value in pairwise(words):
        if word == "--config":
            return Path(value)
    return None
