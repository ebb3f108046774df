"""What every store of conversations does, whether in folders or in the shared state of several replicas."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.errors import UsageError
from handrail.core.messages import (
    AssistantMessage,
    Conversation,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    Text,
    UserMessage,
)
from handrail.sessions.store.metadata import ConversationChoices
from handrail.sessions.store.port import Conversations, open_conversations
from handrail.state.database import StateDatabase
from handrail.testing.clock import FixedClock
from tests.contracts.state_places import place as place

LONG = "the hills of Lisbon " * 200
PICTURE = Media(media_type="image/png", data=b"\x89PNG" * 400)


def asked(text: str, *more: Media) -> UserMessage:
    return UserMessage((Text(text), *more))


@pytest.fixture
def store(place: Path | StateDatabase) -> Conversations:
    return open_conversations(place)


@pytest.fixture
def other(place: Path | StateDatabase) -> Conversations:
    """As another program, or another replica, has it."""
    return open_conversations(place)


def said(*texts: str) -> Conversation:
    kinds = (asked, AssistantMessage)
    return Conversation(tuple(kinds[at % 2](text) for at, text in enumerate(texts)))


def test_what_one_saved_another_loads(store: Conversations, other: Conversations) -> None:
    call = ToolCall("c1", "pay", {"amount": 3, "to": "\ud83d"})
    conversation = Conversation(
        (
            asked("pay", PICTURE),
            AssistantMessage(LONG),
            InvocationMessage(call),
            ResultMessage(ToolResult("c1", "pay", "done\0")),
        )
    )
    store.save("a", conversation, chosen=ConversationChoices(model="large", ensembles=("io",), working=True))

    assert other.load("a") == conversation
    assert other.about("a").chosen == ConversationChoices(model="large", ensembles=("io",), working=True)
    assert other.list() == (other.about("a"),)


def test_saving_goes_on_from_what_another_saved(store: Conversations, other: Conversations) -> None:
    store.save("a", said("one", "two"))
    other.save("a", said("one", "two", "three"))
    about = store.save("a", said("one", "two", "three", "four"))

    assert (about.messages, about.revision) == (4, 3)
    assert other.load("a") == said("one", "two", "three", "four")


def test_who_saves_last_is_believed(store: Conversations, other: Conversations) -> None:
    store.save("a", said("one", "two", LONG))
    other.save("a", said("one", "other"))
    store.save("a", said("one", "two", LONG, "five"))

    assert other.load("a") == said("one", "two", LONG, "five")
    store.save("a", said("one"))
    assert other.load("a") == said("one")


def test_a_title_is_the_first_words_until_it_is_given(store: Conversations) -> None:
    assert store.save("a", said("Where  is\nthe tram?")).title == "Where is the tram?"
    assert store.save("a", said("Where is it?"), title="Trams\ud800").title == "Trams?"
    assert store.save("a", said("Something else")).title == "Trams?"


def test_the_last_saved_comes_first_and_keeps_its_beginning(place: Path | StateDatabase) -> None:
    clock = FixedClock()
    store = open_conversations(place, clock=clock)
    for id in ("a", "b", "a"):
        clock.advance(1)
        store.save(id, said(id))

    first, second = store.list()
    assert (first.id, second.id) == ("a", "b")
    assert first.created < second.created < first.updated


def test_a_fork_begins_alike_and_goes_on_alone(store: Conversations) -> None:
    store.save("a", said("one", LONG, "three"), title="First")
    forked = store.fork("a", upto=2)
    store.save(forked, said("one", LONG, "else"))

    assert store.load("a") == said("one", LONG, "three")
    assert (store.about(forked).forked_from, store.about(forked).title) == ("a", "First")


def test_words_are_found_in_titles_short_texts_and_long_ones(store: Conversations) -> None:
    store.save("a", said("Straße", LONG), title="Trams")
    store.save("b", said("nothing"))

    assert [(each.id, each.index) for each in store.search("STRASSE")] == [("a", 0)]
    assert [(each.id, each.index) for each in store.search("lisbon")] == [("a", 1)]
    assert [(each.id, each.index) for each in store.search("trams")] == [("a", -1)]


def test_a_deleted_conversation_is_gone_for_all_and_its_contents_stay_where_another_has_them(
    store: Conversations, other: Conversations
) -> None:
    store.save("a", said(LONG, "only a " * 300))
    store.fork("a", upto=1)
    other.load("a")
    store.delete("a")

    assert store.sweep() == 1
    with pytest.raises(UsageError, match="no conversation 'a'"):
        other.load("a")
    with pytest.raises(UsageError, match="no conversation 'a'"):
        other.delete("a")
    (left,) = other.list()
    assert other.load(left.id) == said(LONG)


def test_a_conversation_deleted_elsewhere_is_saved_again(store: Conversations, other: Conversations) -> None:
    store.save("a", said("one", LONG))
    other.delete("a")
    other.sweep()
    store.save("a", said("one", LONG, "three"))

    assert other.load("a") == said("one", LONG, "three")


def test_contents_of_messages_that_were_taken_back_go(store: Conversations) -> None:
    store.save("a", said("one", LONG))
    store.save("a", said("one", "short"))

    assert store.sweep() == 1


@pytest.mark.parametrize("id", ["", "../up", "a/b", "a b", ".hidden", "x.deleted", "a" * 129])
def test_an_id_is_one_that_can_name_a_folder(store: Conversations, id: str) -> None:
    for asked in (store.load, store.about, store.delete, lambda id: store.save(id, said("x"))):
        with pytest.raises(UsageError, match="cannot name a folder"):
            asked(id)


def test_many_who_save_at_once_lose_nothing_and_wait_for_each_other_in_no_circle(place: Path | StateDatabase) -> None:
    contents = [f"{number} {LONG}" for number in range(6)]

    def write(number: int) -> None:
        store = open_conversations(place)
        for turn in range(4):
            order = contents[number % 6 :] + contents[: number % 6]
            store.save(f"own-{number}", said(*order[: turn + 2]))
            store.save("shared", said(*order))
            store.sweep()

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(write, range(6)))

    store = open_conversations(place)
    for number in range(6):
        assert len(store.load(f"own-{number}")) == 5
    assert len(store.load("shared")) == 6


_TEXTS = strategies.one_of(strategies.text(max_size=20), strategies.just(LONG))
_MESSAGES: strategies.SearchStrategy[Message] = strategies.one_of(
    _TEXTS.map(asked),
    _TEXTS.map(AssistantMessage),
    strategies.binary(max_size=2_000).map(lambda data: asked("look", Media(media_type="image/png", data=data))),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(versions=strategies.lists(strategies.lists(_MESSAGES, max_size=4), min_size=1, max_size=4))
def test_whatever_is_saved_after_whatever_is_what_is_loaded(
    store: Conversations, other: Conversations, versions: list[list[Message]]
) -> None:
    for at, version in enumerate(versions):
        (store, other)[at % 2].save("any", Conversation(tuple(version)))
    store.sweep()

    assert store.load("any").messages == other.load("any").messages == tuple(versions[-1])
