"""Pictures that a model made, in the record: they come back byte for byte, whatever their bytes look like in base64."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from handrail import Conversation, Executor, Runner
from handrail.core.events import CitationAdded, MediaAdded, ModelEvent, ServiceCallMade
from handrail.core.messages import AssistantMessage, Citation, Media, ServiceCall
from handrail.journal.journal import SqliteJournal
from handrail.run.history import conversation_of
from handrail.testing.model import ScriptedModel, text

LOOKS_SECRET = base64.b64decode("AKIAIOSFODNN7EXAMPLEsk+ant+api03AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
"""Bytes whose base64 begins as the key of a cloud does."""


@pytest.mark.parametrize("beside", ["", "my password=hunter2-and-more is safe"])
@pytest.mark.parametrize("data", [LOOKS_SECRET, bytes(range(256)) * 12_000], ids=["like a key", "3 MB"])
async def test_a_picture_is_recorded_byte_for_byte(tmp_path: Path, data: bytes, beside: str) -> None:
    drawn = Media(media_type="image/png", data=data, name="a.png")
    reply: list[ModelEvent] = [
        text(f"Here. {beside}"),
        CitationAdded(citation=Citation(url="https://a.example/", end=5)),
        MediaAdded(media=drawn),
        ServiceCallMade(call=ServiceCall(id="1", name="web_search", arguments={"api_key": "sk-ant-api03-" + "a" * 40})),
    ]
    journal = await SqliteJournal.open(tmp_path / "journal.db")
    try:
        async with Executor([], journal=journal) as executor:
            ended = await Runner(ScriptedModel(reply), executor).run(Conversation().say("draw"))
        (run,) = {event.run for event in await journal.history(executor.run)}
        recorded = conversation_of(await journal.history(run))
    finally:
        await journal.aclose()

    said = recorded.messages[-1]
    assert isinstance(said, AssistantMessage) and isinstance(ended.messages[-1], AssistantMessage)
    assert said.media == (drawn,)
    assert said.citations == ended.messages[-1].citations
    assert "sk-ant-api03-aaaa" not in str(said.service_calls)
    assert "hunter2" not in said.text
