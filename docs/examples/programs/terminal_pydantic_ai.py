"""Keep the notes of a folder, from the terminal. Whatever changes a note is asked about first."""

import sys
from collections.abc import AsyncIterable
from pathlib import Path

from pydantic_ai import (
    Agent,
    AgentStreamEvent,
    DeferredToolRequests,
    DeferredToolResults,
    PartDeltaEvent,
    PartStartEvent,
    RunContext,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.conversation import Conversation

NOTES = Path(sys.argv[1])


def confirm(context: RunContext, requests: DeferredToolRequests) -> DeferredToolResults:
    approvals = {}
    for call in requests.approvals:
        print(f"\n{call.tool_name} asks to run with these arguments: {call.args_as_dict()}")
        approvals[call.tool_call_id] = input("Allow it? [y/N] ") == "y"
    return requests.build_results(approvals=approvals)


agent = Agent(
    "openai-chat:gpt-4.1",
    instructions="You keep the user's notes.",
    capabilities=[HandleDeferredToolCalls(confirm)],
)


def file_of(name: str) -> Path:
    return NOTES / f"{Path(name).name}.md"


@agent.tool_plain
def list_notes() -> list[str]:
    """List the names of all notes."""
    return sorted(path.stem for path in NOTES.glob("*.md"))


@agent.tool_plain
def read_note(name: str) -> str:
    """Read a note."""
    return file_of(name).read_text()


@agent.tool_plain
def search_notes(words: str) -> list[str]:
    """List the names of the notes that contain some words."""
    return sorted(path.stem for path in NOTES.glob("*.md") if words.lower() in path.read_text().lower())


@agent.tool_plain(requires_approval=True)
def write_note(name: str, content: str) -> str:
    """Write a note, in place of an older one of the same name."""
    file_of(name).write_text(content)
    return f"Wrote {name}."


@agent.tool_plain(requires_approval=True)
def delete_note(name: str) -> str:
    """Delete a note."""
    file_of(name).unlink()
    return f"Deleted {name}."


async def show_text(context: RunContext, events: AsyncIterable[AgentStreamEvent]) -> None:
    async for event in events:
        match event:
            case (
                PartStartEvent(part=TextPart(content=piece)) | PartDeltaEvent(delta=TextPartDelta(content_delta=piece))
            ):
                print(piece, end="", flush=True)


conversation = Conversation()
while prompt := input("> "):
    result = agent.run_sync(prompt, conversation=conversation, event_stream_handler=show_text)
    conversation = result.conversation
    print()
