"""Conversations on disk: saved, read back, forked, found, deleted; whole whenever the machine stops."""

from __future__ import annotations

import hashlib
import os
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from inline_snapshot import snapshot

from handrail import Attachment, Conversation, ToolCall, ToolResult
from handrail.core.calls import Problem
from handrail.core.errors import UsageError
from handrail.core.messages import (
    Artefact,
    AssistantMessage,
    DocumentMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    Usage,
    UserMessage,
)
from handrail.sessions.store.content import ContentError
from handrail.sessions.store.conversations import ConversationMatch, ConversationStore
from handrail.testing.clock import FixedClock
from handrail.testing.ids import CountedIds
from tests.examples import examples

SIX = Conversation(
    (
        SupervisorMessage("Be brief.", 1),
        DocumentMessage("notes.md", "# Notes", 2),
        UserMessage((Text("What is on the picture?"), Media(media_type="image/png", data=b"\x89PNG", name="p.png")), 3),
        AssistantMessage("Let me see.", 4, "m-1", "tool_calls", Usage(input_tokens=5, cost=0.1), (Artefact("x", [1]),)),
        InvocationMessage(ToolCall("call_1", "look", {"at": "p.png"}), 5),
        ResultMessage(
            ToolResult(
                "call_1",
                "look",
                {"$text": "not a reference"},
                outcome="failed",
                error=Problem("NOT_FOUND", "gone"),
                attachments=(Attachment("a", "text/plain", b"x"),),
            ),
            6,
        ),
    )
)


@pytest.fixture
def store(tmp_path: Path) -> ConversationStore:
    return ConversationStore(tmp_path, clock=FixedClock(), new_id=CountedIds())


def again(folder: Path) -> ConversationStore:
    """The same folder, as another process sees it."""
    return ConversationStore(folder, clock=FixedClock(), new_id=CountedIds())


def lines(folder: Path, id: str = "c") -> list[bytes]:
    return (folder / "conversations" / id / "messages.jsonl").read_bytes().splitlines()


def contents(folder: Path) -> set[str]:
    return {path.name for path in (folder / "content").glob("*/*")}


@pytest.mark.requirement("converser.canisters")
def test_all_six_kinds_of_message_come_back_with_their_times(store: ConversationStore, tmp_path: Path) -> None:
    store.save("c", SIX)

    assert again(tmp_path).load("c") == SIX


@pytest.mark.requirement("converser.canisters")
def test_the_files_are_these(store: ConversationStore, tmp_path: Path) -> None:
    store.save("c", Conversation().say("Hello", at=7))

    assert (tmp_path / "conversations/c/messages.jsonl").read_text() == snapshot(
        '{"type":"user","content":[{"type":"text","text":"Hello"}],"at":7}\n'
    )
    assert (tmp_path / "conversations/c/metadata.toml").read_text() == snapshot(
        """\
format = 1
id = "c"
title = "Hello"
created = 2023-11-14T22:13:20.000Z
updated = 2023-11-14T22:13:20.000Z
messages = 1
bytes = 66
revision = 1
"""
    )


def test_texts_of_1024_bytes_and_all_bytes_lie_apart_under_their_digest(
    store: ConversationStore, tmp_path: Path
) -> None:
    short, long, picture = "é" * 511, "é" * 512, b"\x00"
    said = Conversation().say(short).say(long).say(Media(media_type="image/png", data=picture))

    store.save("c", said)

    assert contents(tmp_path) == {hashlib.sha256(data).hexdigest() for data in (long.encode(), picture)}
    assert short.encode() in lines(tmp_path)[0]
    assert again(tmp_path).load("c") == said


@pytest.mark.requirement("converser.canisters")
def test_a_conversation_of_1000_messages_is_saved_by_adding_lines(store: ConversationStore, tmp_path: Path) -> None:
    path = tmp_path / "conversations/c/messages.jsonl"
    said = Conversation().say("0")
    store.save("c", said)
    file, written = path.stat().st_ino, path.read_bytes()

    for number in range(1, 1000):
        said = said.say(str(number))
        if number % 100 == 0 or number == 999:
            store.save("c", said)
            assert path.read_bytes().startswith(written)
            written = path.read_bytes()

    assert path.stat().st_ino == file
    assert len(lines(tmp_path)) == 1000
    assert again(tmp_path).load("c") == said


@pytest.mark.requirement("converser.canisters")
def test_a_conversation_that_was_rolled_back_or_changed_is_saved_as_it_is(
    store: ConversationStore, tmp_path: Path
) -> None:
    said = Conversation().say("one").say("two").say("three")
    store.save("c", said)

    store.save("c", said.upto(1))
    assert again(tmp_path).load("c") == said.upto(1)

    store.save("c", said.upto(1).say("other"))
    assert again(tmp_path).load("c") == Conversation().say("one").say("other")


def test_a_save_that_was_cut_off_is_as_if_it_had_not_been(store: ConversationStore, tmp_path: Path) -> None:
    said = Conversation().say("one")
    store.save("c", said)
    with (tmp_path / "conversations/c/messages.jsonl").open("ab") as file:
        file.write(b'{"type":"user","content":[{"type":"te')

    store = again(tmp_path)
    assert store.load("c") == said

    store.save("c", said.say("two"))
    assert again(tmp_path).load("c") == said.say("two")


def test_a_rewrite_that_was_cut_off_between_its_files_leaves_the_old_or_the_new(
    store: ConversationStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "conversations" / "c"
    old, new = Conversation().say("one").say("two"), Conversation().say("a rather longer beginning")
    store.save("c", old)
    states: list[dict[str, bytes]] = []
    replace = Path.replace

    def noting(path: Path, target: Path) -> Path:
        done = replace(path, target)
        states.append({each.name: each.read_bytes() for each in folder.iterdir()})
        return done

    monkeypatch.setattr(Path, "replace", noting)
    store.save("c", new)
    monkeypatch.undo()

    seen = []
    for state in states:
        for name, data in state.items():
            (folder / name).write_bytes(data)
        seen.append(again(tmp_path).load("c"))
    assert seen == [old, new, new]


@pytest.mark.requirement("converser.canisters")
def test_a_fork_begins_the_same_goes_its_own_way_and_shares_long_contents(
    store: ConversationStore, tmp_path: Path
) -> None:
    said = Conversation().say("x" * 2000).say("second")
    store.save("c", said, title="Long")

    fork = store.fork("c", upto=1)
    store.save(fork, store.load(fork).say("elsewhere"))

    assert store.load("c") == said
    assert store.load(fork) == said.upto(1).say("elsewhere")
    assert (store.about(fork).forked_from, store.about(fork).title) == ("c", "Long")
    assert len(contents(tmp_path)) == 1


def test_deleting_one_and_sweeping_keeps_what_another_shares(store: ConversationStore, tmp_path: Path) -> None:
    store.save("c", Conversation().say("x" * 2000).say("y" * 2000))
    fork = store.fork("c", upto=1)

    store.delete("c")

    assert [each.id for each in store.list()] == [fork]
    assert store.sweep() == 1
    assert store.load(fork) == Conversation().say("x" * 2000)
    store.delete(fork)
    assert (store.sweep(), contents(tmp_path)) == (1, set())
    with pytest.raises(UsageError):
        store.load("c")


def test_the_last_saved_is_listed_first(tmp_path: Path) -> None:
    clock = FixedClock()
    store = ConversationStore(tmp_path, clock=clock)
    for id in ("a", "b", "a"):
        clock.advance(1)
        store.save(id, Conversation().say(f"hello from {id}"))

    assert [(each.id, each.title) for each in store.list()] == [("a", "hello from a"), ("b", "hello from b")]


def test_search_finds_titles_and_what_was_said_and_answered_in_any_case(store: ConversationStore) -> None:
    store.save("c", SIX, title="Pictures")

    assert store.search("PICTURE") == (
        ConversationMatch("c", "Pictures", -1, "Pictures"),
        ConversationMatch("c", "Pictures", 2, "What is on the picture?"),
    )
    assert [found.index for found in store.search("reference")] == [5]
    assert store.search("nowhere") == ()


def test_content_that_was_changed_or_lost_is_noticed(store: ConversationStore, tmp_path: Path) -> None:
    store.save("c", Conversation().say("x" * 2000))
    [path] = (tmp_path / "content").glob("*/*")

    path.write_bytes(b"y" * 2000)
    with pytest.raises(ContentError, match="was changed"):
        again(tmp_path).load("c")
    path.unlink()
    with pytest.raises(ContentError, match="cannot be read"):
        again(tmp_path).load("c")


def test_a_file_that_was_cut_short_is_noticed(store: ConversationStore, tmp_path: Path) -> None:
    store.save("c", Conversation().say("one").say("two"))
    path = tmp_path / "conversations/c/messages.jsonl"
    path.write_bytes(path.read_bytes()[:-10])

    with pytest.raises(ContentError, match="cut off"):
        again(tmp_path).load("c")


def test_a_file_that_is_gone_is_noticed(store: ConversationStore, tmp_path: Path) -> None:
    store.save("c", Conversation().say("one"))
    (tmp_path / "conversations/c/messages.jsonl").unlink()

    with pytest.raises(ContentError, match="cannot be read"):
        again(tmp_path).load("c")


def test_a_deletion_that_was_cut_off_is_in_nobodys_way(store: ConversationStore, tmp_path: Path) -> None:
    left = tmp_path / "conversations" / "c.v2.deleted"
    left.mkdir(parents=True)
    (left / "messages.jsonl").write_text("")
    store.save("c.v2", Conversation().say("one"))

    store.delete("c.v2")

    assert (store.list(), left.exists()) == ((), False)


def test_every_new_folder_is_on_disk_before_the_save_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    sync = os.fsync

    def noting(handle: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")))
        sync(handle)

    monkeypatch.setattr(os, "fsync", noting)
    ConversationStore(tmp_path / "new" / "store").save("c", Conversation().say("x" * 2000))

    made = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert {path.parent for path in made} <= set(synced)


def test_only_so_many_conversations_are_kept_in_memory(store: ConversationStore) -> None:
    for number in range(40):
        store.save(f"c{number}", Conversation().say("one"))
    assert len(store.search("one")) == 80

    assert len(store._saved) == 16
    assert store.load("c0") == Conversation().say("one")


def test_metadata_of_a_later_version_is_refused(store: ConversationStore, tmp_path: Path) -> None:
    store.save("c", Conversation())
    path = tmp_path / "conversations/c/metadata.toml"
    path.write_text(path.read_text().replace("format = 1", "format = 2"))

    with pytest.raises(ContentError, match="later version"):
        again(tmp_path).load("c")


def test_one_that_is_damaged_is_listed_as_such_and_is_in_nobodys_way(store: ConversationStore, tmp_path: Path) -> None:
    for id in ("good", "bad", "cut"):
        store.save(id, Conversation().say(f"hello from {id}, " + "x" * 2_000 + " needle"))
    (tmp_path / "conversations/bad/metadata.toml").write_text("title = ")
    (tmp_path / "conversations/cut/messages.jsonl").write_bytes(b"")
    other = again(tmp_path)

    assert {about.id: bool(about.problem) for about in other.list()} == {"good": False, "bad": True, "cut": False}
    assert {found.id for found in other.search("needle")} == {"good"}
    with pytest.raises(ContentError):
        other.load("bad")
    with pytest.raises(ContentError):  # nobody knows which contents it has: all stay
        other.sweep()
    assert len(contents(tmp_path)) == 3

    other.delete("bad")
    other.delete("cut")
    assert (other.sweep(), [about.id for about in other.list()]) == (2, ["good"])


@pytest.mark.parametrize("id", ["", "../c", "a/b", ".", "x.deleted"])
def test_an_id_that_cannot_name_a_folder_is_refused(store: ConversationStore, id: str) -> None:
    with pytest.raises(UsageError):
        store.save(id, Conversation())


def test_what_another_process_saved_is_seen_before_it_is_added_to(store: ConversationStore, tmp_path: Path) -> None:
    store.save("c", Conversation().say("one"))
    again(tmp_path).save("c", Conversation().say("changed"))

    store.save("c", Conversation().say("one").say("two"))

    assert again(tmp_path).load("c") == Conversation().say("one").say("two")


def test_something_that_is_no_json_is_refused_and_nothing_is_lost(store: ConversationStore, tmp_path: Path) -> None:
    said = Conversation().say("one")
    store.save("c", said)

    with pytest.raises(UsageError, match="ResultMessage"):
        store.save("c", said.add(ResultMessage(ToolResult("1", "t", object()))))

    assert again(tmp_path).load("c") == said


TEXT = st.text(st.characters(), max_size=30) | st.builds(lambda text: text * 600, st.text(min_size=1, max_size=2))
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["$text", "$bytes", "$as", "a"]) | st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
CONTENT = st.builds(Text, TEXT) | st.builds(Media, media_type=st.just("image/png"), data=st.binary(max_size=50))
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(UserMessage, st.lists(CONTENT, max_size=3).map(tuple), st.integers(0, 2**50)),
    st.builds(SupervisorMessage, TEXT),
    st.builds(DocumentMessage, TEXT, TEXT),
    st.builds(AssistantMessage, TEXT, artefacts=st.lists(st.builds(Artefact, TEXT, JSON), max_size=2).map(tuple)),
    st.builds(InvocationMessage, st.builds(ToolCall, TEXT, TEXT, TEXT | st.dictionaries(st.just("a"), JSON))),
    st.builds(ResultMessage, st.builds(ToolResult, TEXT, TEXT, JSON)),
)
SURROGATES = st.text(st.characters(categories=["Cs"]) | st.characters(), max_size=10)


@pytest.mark.requirement("converser.canisters")
@settings(max_examples=examples(60))
@given(st.lists(MESSAGES, max_size=5), st.lists(MESSAGES, max_size=3), st.integers(0, 5))
def test_whatever_was_saved_comes_back_also_after_a_change(
    first: list[Message], more: list[Message], keep: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = ConversationStore(folder)
        store.save("c", Conversation(tuple(first)))
        said = Conversation((*first[:keep], *more))
        store.save("c", said)

        assert ConversationStore(folder).load("c") == store.load("c") == said


@settings(max_examples=examples(30))
@given(SURROGATES, SURROGATES)
def test_text_that_is_not_valid_unicode_is_kept_and_titles_are_valid_toml(said: str, title: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = ConversationStore(folder)
        store.save("c", Conversation().say(said))
        store.save("c", Conversation().say(said), title=title)

        assert ConversationStore(folder).load("c") == Conversation().say(said)
        written = tomllib.loads((Path(folder) / "conversations/c/metadata.toml").read_text("utf-8"))
        assert written["title"] == title.encode("utf-8", "replace").decode()
