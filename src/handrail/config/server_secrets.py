"""Secrets of MCP servers that the user has handed over: `secret:NAME` in a table `[mcp.SERVER]` is one of them.

They are kept in the user's state folder, in a file that only the user can read, by the
configuration file and the server that they are for. Another file, and another server of
the same file, cannot name them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import field
from msgspec.structs import replace

from handrail.config.user_file import UserFile, VersionedContent, config_key, state_folder

FILE = "secrets.json"


class SecretsContent(VersionedContent, frozen=True, omit_defaults=True):
    servers: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    """The secrets by the path of the configuration file, the name of the server, and their own name."""

    def __repr__(self) -> str:
        return "SecretsContent(…)"


class ServerSecrets:
    """Everything that one user handed over."""

    def __init__(self, folder: Path) -> None:
        self._file = UserFile(folder / FILE, SecretsContent, "secrets")

    @classmethod
    def here(cls, environ: Mapping[str, str] = os.environ) -> ServerSecrets:
        return cls(state_folder(environ))

    @property
    def path(self) -> Path:
        return self._file.path

    def of(self, config: Path, server: str) -> Mapping[str, str]:
        """The secrets of one server by their names."""
        return self._file.read().servers.get(config_key(config), {}).get(server, {})

    def keep(self, config: Path, server: str, secrets: Mapping[str, str]) -> None:
        """Keep these for a server, in place of what was kept for it; with none, nothing is."""
        key = config_key(config)

        def edit(before: SecretsContent) -> SecretsContent:
            others = {name: kept for name, kept in before.servers.get(key, {}).items() if name != server}
            after = {**others, server: dict(secrets)} if secrets else others
            files = {file: kept for file, kept in before.servers.items() if file != key}
            return replace(before, servers={**files, key: after} if after else files)

        if secrets or self.of(config, server):
            self._file.change(edit)
