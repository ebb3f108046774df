"""Functions that descriptors of the tests name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from handrail.tools.tool import tool

VERSION = "1"


def shout(text: str, times: int = 1) -> str:
    """Say it loudly.

    Args:
        text: What to say.
    """
    return text.upper() * times


def stem(path: Path) -> str:
    return path.stem


async def echo(context: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"tool": context.tool_name, **arguments}


@tool(side_effects=True, timeout=7, tags=("mail",))
def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


class Box:
    @staticmethod
    def size() -> int:
        return 3
