"""What a service adds to a reply, as the desk tells and keeps it."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from handrail.core.messages import AssistantMessage
from handrail.desk.views.journal_index import JournalIndex
from handrail.desk.views.proofs import ProofViews
from handrail.sessions.store.conversations import ConversationStore
from tests.desk.scripted_desk import Follower, ScriptedDesk, over, reply

PICTURE = bytes(range(256)) * 12_000
"""3 MB."""
SAID = "𝒜 reply. Cited."
EXTRAS: dict[str, Any] = {
    "citations": [{"url": "https://a.example/", "title": "A", "end": len(SAID) - 1}],
    "media": [
        {"media_type": "image/png", "data": base64.b64encode(PICTURE).decode(), "name": "a.png"},
        {"media_type": "image/png", "url": "https://b.example/b.png"},
    ],
    "service_calls": [{"id": "1", "name": "web_search", "arguments": '{"query": "a"}', "result": ["hit"]}],
}


async def test_a_reply_is_told_with_its_sources_its_files_and_the_calls_of_the_service(tmp_path: Path) -> None:
    async with ScriptedDesk(tmp_path / "p", [reply(SAID, **EXTRAS)]).open() as desk:
        id = await desk.begin()
        async with Follower(desk, id) as follower:
            await desk.say(id, "go on")
            said = (await over(desk, id)).items[-1]
            (seen,) = follower.told("service_call")

        assert [(each.number, each.host) for each in said.sources] == [(1, "a.example")]
        assert [(mark.at, mark.number) for mark in said.marks] == [(len(SAID), 1)]  # a browser counts 𝒜 as two
        assert [(part.name, part.size, part.url) for part in said.parts] == [
            ("a.png", len(PICTURE), ""),
            ("image/png", 0, "https://b.example/b.png"),
        ]
        assert said.service_calls == (seen,)
        assert (seen.name, seen.arguments) == ("web_search", {"query": "a"})
        assert seen.result is not None and '"hit"' in seen.result.text
        assert (await desk.attachment(id, said.index, 0)).data == PICTURE


async def test_a_kept_conversation_has_them_and_a_picture_is_kept_beside_its_line(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path / "p", [reply(SAID, **EXTRAS)])
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "go on")
        await over(desk, id)

    folder = parlour.folder / ".handrail"
    kept = ConversationStore(folder).load(id).messages[-1]
    assert isinstance(kept, AssistantMessage)
    assert (len(kept.citations), len(kept.service_calls), kept.media[0].data) == (1, 1, PICTURE)
    assert (folder / "conversations" / id / "messages.jsonl").stat().st_size < 10_000


async def test_a_shared_conversation_has_them_but_fetches_nothing_from_elsewhere(tmp_path: Path) -> None:
    async with ScriptedDesk(tmp_path / "p", [reply(SAID, **EXTRAS)]).open() as desk:
        id = await desk.begin()
        await desk.say(id, "go on")
        await over(desk, id)

        taken = await desk.take((await desk.share(id)).data)

        said = (await desk.items(taken, 2))[-1]
        assert (len(said.sources), len(said.service_calls)) == (1, 1)
        assert [(part.name, part.url) for part in said.parts] == [("a.png", "")]
        assert (await desk.attachment(taken, said.index, 0)).data == PICTURE


async def test_the_record_says_what_the_service_ran(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path / "p", [reply(SAID, **{**EXTRAS, "media": EXTRAS["media"][1:]})])
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "go on")
        await over(desk, id)
        page = await ProofViews(
            JournalIndex(parlour.folder / ".handrail" / "journal.db"), ConversationStore(parlour.folder / ".handrail")
        ).run(id)

    (said,) = [entry.says for entry in page.entries if entry.type == "reply.given"]
    assert said.endswith("; the service ran web_search; 1 citation; 1 file")
