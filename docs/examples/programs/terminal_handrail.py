"""Keep the notes of a folder, from the terminal. Whatever changes a note is asked about first."""

import sys
from pathlib import Path

from handrail import Session, tool

NOTES = Path(sys.argv[1])


def file_of(name: str) -> Path:
    return NOTES / f"{Path(name).name}.md"


@tool
def list_notes() -> list[str]:
    """List the names of all notes."""
    return sorted(path.stem for path in NOTES.glob("*.md"))


@tool
def read_note(name: str) -> str:
    """Read a note."""
    return file_of(name).read_text()


@tool
def search_notes(words: str) -> list[str]:
    """List the names of the notes that contain some words."""
    return sorted(path.stem for path in NOTES.glob("*.md") if words.lower() in path.read_text().lower())


@tool(side_effects=True)
def write_note(name: str, content: str) -> str:
    """Write a note, in place of an older one of the same name."""
    file_of(name).write_text(content)
    return f"Wrote {name}."


@tool(side_effects=True)
def delete_note(name: str) -> str:
    """Delete a note."""
    file_of(name).unlink()
    return f"Deleted {name}."


with Session(
    "openai:gpt-4.1",
    system_prompt="You keep the user's notes.",
    tools=[list_notes, read_note, search_notes, write_note, delete_note],
    approver="terminal",
) as session:
    while prompt := input("> "):
        for piece in session.stream(prompt).text_stream:
            print(piece, end="", flush=True)
        print()
