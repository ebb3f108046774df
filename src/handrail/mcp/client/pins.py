"""What a person agreed to about the tools of a server, for whoever keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from handrail.mcp.values import RemoteTool


class Pins(Protocol):
    """What a person has taken of a server: tools that say something else since are held back."""

    def held(self, server: str, tools: Mapping[str, RemoteTool]) -> Mapping[str, str]:
        """The tools that may not be offered until a person says so again, each with why.

        It is asked about a whole listing, under the names that the server gives, each time that one was read; in a
        thread, so that it may read a file.
        """
        ...
