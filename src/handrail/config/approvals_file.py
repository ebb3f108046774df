"""The file of what a person has approved: configurations, MCP servers, and standing rules.

It is a file of the user, never one beside a project's configuration, which anybody who
can change a project could change too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from handrail.config.user_file import UserFile, VersionedContent

FILE = "approvals.json"


class ServerApproval(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person's decision on one server."""

    binds: str
    """What it is good for: the digest of the command, or of the address."""
    at: int = 0
    """Milliseconds since 1970."""
    by: str = ""
    tools: dict[str, dict[str, Any]] | None = None
    """Its tools as they were described; None until it was first connected."""


class ConfigApproval(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person's approval of what one configuration would do beyond the defaults."""

    binds: str
    """The digest of its powers and of every file that decides them."""
    files: dict[str, str] = field(default_factory=dict)
    """The digest of each of those files by its path, to say later which of them changed."""
    at: int = 0
    """Milliseconds since 1970."""
    by: str = ""


class ApprovalsContent(VersionedContent, frozen=True, omit_defaults=True):
    configs: dict[str, ConfigApproval] = field(default_factory=dict)
    """Approved configurations, by the path of the configuration file."""
    servers: dict[str, dict[str, ServerApproval]] = field(default_factory=dict)
    """Approved servers, by the path of the configuration file, then by the name of the server."""
    rules: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Standing rules by the path of the configuration file, the newest first."""


class ApprovalsFile:
    """The file. Several processes may use it at once; each change reads it again under a lock."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._file = UserFile(self.path, ApprovalsContent, "approvals")

    def read(self) -> ApprovalsContent:
        return self._file.read()

    def change(self, edit: Callable[[ApprovalsContent], ApprovalsContent]) -> None:
        """Exchange the content for what is made of it, with nobody else writing meanwhile."""

        def edit_and_tidy(before: ApprovalsContent) -> ApprovalsContent:
            after = edit(before)
            if after is before:
                return before
            servers = {file: named for file, named in after.servers.items() if named}
            rules = {file: stated for file, stated in after.rules.items() if stated}
            return replace(after, servers=servers, rules=rules)

        self._file.change(edit_and_tidy)
