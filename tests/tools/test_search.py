"""A search by words finds the tool that is meant, says why, and gives the same for the same."""

from __future__ import annotations

from functools import cache

from hypothesis import given, strategies as st
from msgspec.structs import replace

from handrail import Ensemble, Tool, tool
from handrail.tools.definition import ToolDefinition
from handrail.tools.registry import registered
from handrail.tools.search import ToolIndex
from handrail.tools.word_forms import comparable_words, name_parts, word_root
from tests.tools.tool_samples import queries, tools


@cache
def catalogue() -> ToolIndex:
    return ToolIndex(tools())


def place(said: str, name: str) -> int:
    """Where the tool that is meant stands among eight; 8 if it does not."""
    found = catalogue().search(said, 8)
    return found.index(name) if name in found else 8


def test_nine_of_ten_questions_have_their_tool_among_the_first_five_of_two_hundred() -> None:
    places = {said: place(said, name) for said, name in queries()}

    assert len(catalogue().names) >= 200
    assert len(places) >= 60
    missed = [said for said, at in places.items() if at > 4]
    assert len(missed) <= 0.1 * len(places), missed
    assert sum(at == 0 for at in places.values()) >= 0.7 * len(places)


def test_a_name_is_found_however_it_is_spelt() -> None:
    for spelling in ("github.create_issue", "github-create-issue", "githubCreateIssue", "GitHub create issue"):
        assert catalogue().search(spelling, 1) == ["github.create_issue"]
    assert catalogue().search("githb.creat_isue", 1) == ["github.create_issue"]


def test_a_name_inside_a_sentence_wins_over_words_that_also_fit() -> None:
    said = "don't read the message and archive the mail, use calendar.respond_to_invite"

    assert catalogue().search(said, 1) == ["calendar.respond_to_invite"]
    assert catalogue().hits(said, 1)[0].named


def test_a_misspelt_word_still_finds() -> None:
    assert "weather.forecast" in catalogue().search("wether forcast", 3)


def test_a_hit_tells_its_score_and_the_words_it_was_found_by() -> None:
    first, second = catalogue().hits("refund a payment", 2)

    assert first.name == "stripe.refund_payment"
    assert first.words == ("refund", "payment")
    assert first.score > second.score > 0
    assert second.name == "stripe.list_payments"
    assert second.words == ("payment",)


def test_only_what_may_be_found_is_found_and_counted() -> None:
    found = catalogue().search("send an email", 3, lambda name: not name.startswith("email."))

    assert len(found) == 3
    assert not [name for name in found if name.startswith("email.")]


def test_words_of_descriptions_parameters_tags_and_ensembles_all_count() -> None:
    def schema(name: str, said: str) -> dict[str, object]:
        inner = {"type": "object", "properties": {name: {"type": "string", "description": said, "enum": ["maroon"]}}}
        return {"type": "object", "properties": {"outer": {"type": "array", "items": inner}}}

    index = ToolIndex(
        [
            ToolDefinition("a", "Waters the ficus."),
            ToolDefinition("b", "", schema("humidity_level", "Of the terrarium.")),
            ToolDefinition("c", tags=("botany",)),
            ToolDefinition("d"),
        ],
        {"d": "greenhouse"},
    )

    asked = ("ficuses", "humidity", "terrarium", "maroon", "botany", "greenhouse")
    assert [index.search(each, 1) for each in asked] == [["a"], ["b"], ["b"], ["b"], ["c"], ["d"]]


def test_registered_tools_search_themselves_by_ensemble_too() -> None:
    @tool
    def ask(question: str) -> str:
        raise NotImplementedError

    def other(name: str) -> Tool:
        return ask.changed(name=name)

    found = registered(Ensemble("oracle", [ask]), other("wait"), other("sing"))

    assert found.index.search("the oracle", 1) == ["ask"]
    assert found.index is found.index


def test_words_of_any_script_are_found() -> None:
    index = ToolIndex(
        [
            ToolDefinition("wetter", "Zeigt die Temperatur für Straßen in Köln."),
            ToolDefinition("tenki", "東京の天気予報を見る"),
            ToolDefinition("pogoda", "Показать погоду в Москве"),
            ToolDefinition("kafes", "Un café s'il vous plaît"),
        ]
    )

    asked = ("STRASSEN", "天気", "погоду", "cafe")
    assert [index.search(each, 1) for each in asked] == [["wetter"], ["tenki"], ["pogoda"], ["kafes"]]


def test_nothing_is_found_in_nothing_or_for_nothing() -> None:
    assert ToolIndex([]).search("anything") == []
    assert catalogue().search("") == []
    assert catalogue().search("?! …") == []
    assert catalogue().search("the of and to") == []


def test_five_thousand_tools_are_searched_like_two_hundred() -> None:
    many = [replace(each, name=f"{each.name}_{copy}") for copy in range(25) for each in tools()]

    index = ToolIndex(many)

    assert len(index.names) > 5_000
    assert index.search("weather.alerts_17", 1) == ["weather.alerts_17"]
    assert index.search("lock the front door", 3) == [f"home.lock_door_{copy}" for copy in range(3)]


def test_forms_of_a_word_meet() -> None:
    forms = {
        "create": "creates created creating creation",
        "file": "files",
        "run": "running runs",
        "reply": "replies replied",
        "translate": "translation translations translating",
        "box": "boxes",
        "meeting": "meetings",
    }

    assert {word: {word_root(each) for each in others.split()} for word, others in forms.items()} == {
        word: {word_root(word)} for word in forms
    }
    assert len({word_root(each) for each in ("status", "state", "address", "add", "is", "news")}) == 6


def test_names_come_apart_where_their_parts_meet() -> None:
    assert name_parts("getHTTPServer_v2.list-all") == ["get", "http", "server", "v", "2", "list", "all"]
    assert comparable_words("What IS the weather?") == ["weather"]


@given(st.text(max_size=200), st.integers(0, 12))
def test_any_text_gives_the_same_few_names_every_time(query: str, count: int) -> None:
    found = catalogue().search(query, count)

    assert found == catalogue().search(query, count)
    assert len(found) == len(set(found)) <= count
    assert catalogue().search(query, count + 3)[:count] == found


@given(st.lists(st.text(max_size=60), max_size=6), st.text(max_size=60))
def test_tools_of_any_words_can_be_indexed_and_asked(said: list[str], query: str) -> None:
    definitions = [ToolDefinition(f"t{at}", text, tags=(text,)) for at, text in enumerate(said)]

    index = ToolIndex(definitions)

    assert set(index.search(query, 10)) <= {each.name for each in definitions}
