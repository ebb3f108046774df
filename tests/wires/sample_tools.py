"""Real tools that are hard on a wire: odd names, deep arguments, failures, effects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from handrail import Tool, ToolDefinition, ToolError, tool

LONG = "archive.search.everything-that-was-ever-written-down-in-this-house-by-anybody"


@dataclass(frozen=True)
class Guest:
    name: str
    age: int | None = None
    likes: list[str] = field(default_factory=list)


@tool
async def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


@tool
async def divide(a: float, b: float) -> float:
    """Divide one number by another."""
    return a / b


@tool
async def now() -> str:
    """Tell the time."""
    return "12:00"


@tool
async def echo(text: str) -> str:
    """Say the same again."""
    return text


@tool(name="notes.read")
async def read_note(title: str) -> str:
    """Read a note."""
    if title != "plan":
        raise ToolError(f"there is no note {title!r}; there is 'plan'")
    return "Rest."


@tool(name="notes.write", side_effects=True)
async def write_note(title: str, tags: list[str], pinned: bool = False) -> dict[str, Any]:
    """Write a note."""
    return {"title": title, "tags": tags, "pinned": pinned}


@tool(name=LONG)
async def search(query: str, order: Literal["new", "old"] = "new", most: int | None = None) -> list[str]:
    """Search the archive."""
    return [query, order, str(most)]


@tool
async def book(guests: list[Guest], price: float, breakfast: bool) -> dict[str, Any]:
    """Book a room for guests."""
    return {"guests": [guest.name for guest in guests], "price": price, "breakfast": breakfast}


async def _remind(**arguments: Any) -> dict[str, Any]:
    return arguments


REMIND = ToolDefinition(
    "remind",
    "Remind of something.",
    {
        "type": "object",
        "properties": {
            "what": {"type": "string"},
            "minutes": {"type": "integer"},
            "place": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "street": {"type": "string"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
        "required": ["what"],
        "additionalProperties": False,
    },
)
"""What may be left out has no default: services with strict schemas have it written as null."""

TOOLS = (add, divide, now, echo, read_note, write_note, search, book, Tool(REMIND, _remind, style="arguments"))
