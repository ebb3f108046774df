"""Searching: it finds what a plain look at every message would, and keeps nobody who saves waiting."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from handrail import Conversation, ToolCall, ToolResult
from handrail.core.messages import AssistantMessage, InvocationMessage, Media, Message, ResultMessage, Text, UserMessage
from handrail.sessions.store.conversations import ConversationStore, find_matches
from handrail.sessions.store.message_lines import pack_message
from tests.examples import examples

PATIENCE = 20
TEXTS = st.text(alphabet='aAbBßsSKk ,:"\\{}[]\n\té\u2028\U0001f600', max_size=8) | st.just("ab" * 600)
VALUES = TEXTS | st.lists(TEXTS | st.integers(0, 99), max_size=3) | st.dictionaries(TEXTS, TEXTS, max_size=2)
PARTS = st.lists(TEXTS.map(Text), min_size=1, max_size=3).map(tuple)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    PARTS.map(UserMessage),
    PARTS.map(lambda parts: UserMessage((*parts, Media(media_type="image/png", data=b"ab")))),
    TEXTS.map(AssistantMessage),
    VALUES.map(lambda value: ResultMessage(ToolResult("c", "t", value))),
    TEXTS.map(lambda text: InvocationMessage(ToolCall("c", "t", {"a": text}))),
)


@settings(max_examples=examples(60))
@given(st.lists(MESSAGES, max_size=5), TEXTS.filter(bool))
def test_it_finds_what_a_look_at_every_message_finds(messages: list[Message], words: str) -> None:
    contents: dict[str, bytes] = {}

    def put(data: bytes) -> str:
        contents[str(len(contents))] = data
        return str(len(contents) - 1)

    needle = words.casefold()
    lines = [pack_message(message, put) for message in messages]
    said = [
        message.result.text if isinstance(message, ResultMessage) else getattr(message, "text", "")
        for message in messages
    ]
    there = [at for at, text in enumerate(said) if needle in text.casefold()]
    calls = [at for at, message in enumerate(messages) if isinstance(message, InvocationMessage)]
    assert [at for at, _ in find_matches(lines, needle, contents.__getitem__)] == [
        at for at in there if at not in calls
    ]


class Held:
    """A content that whoever reads it waits for, until it is let go."""

    def __init__(self, content: Path) -> None:
        self._content = content
        self._data = content.read_bytes()
        content.unlink()
        os.mkfifo(content)

    @contextmanager
    def read(self) -> Iterator[None]:
        """Begins when somebody reads it."""
        writing = os.open(self._content, os.O_WRONLY)
        try:
            yield
        finally:
            os.write(writing, self._data)
            os.close(writing)


LONG = "x" * 2_000
OTHER = "y" * 2_000


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as found:
        yield found


def test_who_saves_does_not_wait_for_a_search(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    store = ConversationStore(tmp_path)
    store.save("long", Conversation().say(LONG + " needle"))
    [content] = (tmp_path / "content").glob("*/*")
    held = Held(content)
    searching = threads.submit(store.search, "needle")
    with held.read():
        saving = threads.submit(ConversationStore(tmp_path).save, "other", Conversation().say("hello"))
        assert saving.result(PATIENCE).title == "hello"
    assert [(found.id, found.index) for found in searching.result(PATIENCE)] == [("long", 0)]


def test_one_that_is_changed_while_it_is_searched_is_found_as_it_is_then(
    tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    store = ConversationStore(tmp_path)
    store.save("one", Conversation().say(OTHER).say(LONG + " needle"))
    contents = {path.read_bytes()[:1]: path for path in (tmp_path / "content").glob("*/*")}
    held = Held(contents[b"y"])
    searching = threads.submit(store.search, "needle")
    with held.read():
        other = ConversationStore(tmp_path)
        other.delete("one")
        other.save("one", Conversation().say("a needle"))
        other.sweep()
        assert not contents[b"x"].exists()
    assert [(found.id, found.excerpt) for found in searching.result(PATIENCE)] == [("one", "a needle")]


def test_a_list_is_told_of_what_another_program_saved(tmp_path: Path) -> None:
    store, other = ConversationStore(tmp_path), ConversationStore(tmp_path)
    store.save("one", Conversation().say("hello"))
    assert [about.title for about in store.list()] == ["hello"]
    other.save("one", Conversation().say("hello"), title="jello")
    assert [about.title for about in store.list()] == ["jello"]
    other.delete("one")
    assert store.list() == ()


def test_what_is_saved_during_a_sweep_keeps_its_contents(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    for number in range(8):
        ConversationStore(tmp_path).save(f"c{number}", Conversation().say(f"{number} {LONG}"))

    def sweep() -> int:
        return sum(ConversationStore(tmp_path).sweep() for _ in range(4))

    def save() -> None:
        store = ConversationStore(tmp_path)
        for number in range(8):
            store.save(f"c{number}", Conversation().say(f"{number} {OTHER}"))
            store.save(f"new{number}", Conversation().say(f"{number} new {OTHER}"))
            if number % 4 == 0:
                store.delete(f"c{number}")

    sweeping, saving = threads.submit(sweep), threads.submit(save)
    saving.result(PATIENCE)
    gone = sweeping.result(PATIENCE) + ConversationStore(tmp_path).sweep()
    assert gone == 10, "the first contents of all, and the second of those that were deleted"
    left = ConversationStore(tmp_path)
    assert all(left.load(about.id).messages for about in left.list()) and len(left.list()) == 14
