"""A prompt is as much work late in a session as early: counted, not timed."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from handrail import Conversation, Session
from handrail.core.events import ConversationChanged, ModelEvent
from handrail.core.messages import InvocationMessage, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.run.history import conversation_of
from handrail.run.offering import Offering
from handrail.testing import MemoryJournal, ScriptedModel, call, text


class NotesEveryPrompt:
    """A model that calls `note` once for each prompt, always under the same id."""

    name = "notes"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        reply = [call("note", "c", x=1)] if isinstance(request.messages[-1], UserMessage) else [text("Noted.")]
        async for event in ScriptedModel(reply).stream(request):
            yield event


async def note(x: int) -> str:
    """Note a number."""
    return "noted"


def _other(number: int) -> Any:
    async def other(x: int) -> str:
        return ""

    other.__name__, other.__doc__ = f"other_{number}", f"Do the other thing {number}."
    return other


OTHERS = [_other(number) for number in range(3)]


async def steps_of(session: Session[Any], prompt: str) -> int:
    """How many functions are called, and lines of comprehensions and loops are gone through, for a prompt."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += frame.f_globals.get("__name__", "").startswith("handrail.")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        await session.ask_async(prompt)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("kept", ["in memory", "on disk", "with many tools"])
async def test_the_three_hundredth_prompt_is_as_much_work_as_the_tenth(kept: str, tmp_path: Path) -> None:
    journal = tmp_path / "journal.db" if kept == "on disk" else None
    offering = Offering(most=2 if kept == "with many tools" else 64)
    async with Session(NotesEveryPrompt(), tools=[note, *OTHERS], journal=journal, offering=offering) as session:
        for _ in range(9):
            await session.ask_async("note")
        # How often the thread of a journal wakes the session is for the machine to say: the least is what must be.
        tenth = min([await steps_of(session, "note") for _ in range(5)])
        for _ in range(285):
            await session.ask_async("note")
        late = min([await steps_of(session, "note") for _ in range(5)])
        results = [result.outcome for result in (await session.ask_async("note")).results]

    assert results == ["ok"]
    assert late <= tenth * 1.02


async def test_an_id_that_the_model_uses_again_is_never_taken_for_the_first_call() -> None:
    async with Session(NotesEveryPrompt(), tools=[note]) as session:
        for _ in range(5):
            await session.ask_async("note")
        ids = [message.id for message in session.conversation.messages if isinstance(message, InvocationMessage)]

    assert len(set(ids)) == 5


async def test_a_conversation_that_was_changed_between_prompts_is_recorded_as_it_is_now() -> None:
    journal = MemoryJournal()
    async with Session(NotesEveryPrompt(), tools=[note], journal=journal) as session:
        for prompt in ("one", "two", "three"):
            await session.ask_async(prompt)
        session.undo()
        session.undo()
        await session.ask_async("four")
        session.conversation = Conversation(session.conversation.messages[:-1]).supervised("be brief")
        await session.ask_async("five")
        recorded = conversation_of(await journal.history(session.run or ""))

    said = [message.text for message in recorded.messages if isinstance(message, UserMessage)]
    kept = [event.keep for event in journal.events if isinstance(event, ConversationChanged)]
    assert said == ["one", "four", "five"]
    assert kept == [0, 5, 10, 5, 9]
