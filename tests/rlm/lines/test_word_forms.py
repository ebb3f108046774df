"""Which spellings of a word count as the word."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from handrail.rlm.lines.cell.terms import compiled, has
from handrail.rlm.lines.vocabulary import Language
from handrail.rlm.lines.word_forms import anywhere, exact, forms, pattern, related


@pytest.mark.parametrize(
    ("language", "word", "same", "others"),
    [
        ("en", "error", "error errors ERROR Errors error_code TimeoutError", "terror mirrored erroneous Horror"),
        ("en", "errors", "error ERROR errors", "terrors"),
        ("en", "queries", "query queries", "queried"),
        ("en", "crashes", "crash crashes", "crush"),
        ("en", "crash", "crash crashes crashed crashing", "crasher"),
        ("en", "stopped", "stop stops stopped stopping", "stoppage"),
        ("en", "denied", "deny denies denied denying", "den"),
        ("en", "failed", "fail fails failed failing failure failures", "failover"),
        ("en", "failures", "failure failures", "failed"),
        ("en", "boxes", "box boxes", "boxer"),
        ("en", "news", "news", "new"),
        ("en", "status", "status", "statue"),
        ("en", "process", "process processes processed", "proces"),
        ("en", "billing", "billing billings BILLING", "bill bills"),
        ("en", "feed", "feed feeds", "fee"),
        ("en", "sold", "sold sell sells", "soldier"),
        ("en", "404", "404", "4040 1404"),
        ("de", "Fehler", "Fehler Fehlern Fehlers FEHLER", "fehlt fehlen Fehlermeldung"),
        ("de", "Warnungen", "Warnung Warnungen WARNUNG", "warnt"),
        ("de", "Dateien", "Datei Dateien", "Dateiname"),
        ("de", "Kunden", "Kunde Kunden", "Kundschaft"),
        ("de", "Häuser", "Haus Hauses Häuser", "Hausordnung"),
        ("de", "Verträge", "Vertrag Vertrags Verträge", "vertragen"),
        ("de", "Leuchtturm", "Leuchtturm Leuchttürme Leuchtturms", "Turm"),
        ("de", "verkaufte", "verkaufte verkauft verkaufen verkauften", "Verkäufer"),
        ("de", "Raten", "Rate Raten", "Rat"),
        ("de", "Timeouts", "Timeout Timeouts TIMEOUT", "time"),
        ("en", "timeout", "TimeoutError readTimeoutError timeoutMillis", "Timeouterror TIMEOUTERROR"),
        ("en", "灯塔", "马拉卖掉了灯塔", "塔"),
    ],
)
def test_a_word_is_found_in_its_forms_and_in_no_other_word(
    language: Language, word: str, same: str, others: str
) -> None:
    look = compiled({"pattern": as_json(word, language)})

    assert [each for each in same.split() if not has(look, f"a {each}, b")] == []
    assert [each for each in others.split() if has(look, f"a {each}, b")] == []


def as_json(word: str, language: Language) -> dict[str, object]:
    found = pattern(forms(word, language))
    return {name: getattr(found, name) for name in found.__struct_fields__}


def test_a_word_of_the_other_language_may_stand_in() -> None:
    assert related("Fehler", "de")[0][1] == ("error", "errors")
    assert related("errors", "en")[0][1] == ("fehler",)
    assert [name for name, _ in related("failed", "en")] == ["fehlgeschlagen", "error"]
    assert related("lighthouse", "en") == []


LETTERS = st.text(st.sampled_from("eroEROsS_ -.1äÄßxTtimeout"), max_size=40)


@given(text=LETTERS, word=st.sampled_from(["error", "rose", "ser", "e", "Äer", "timeout"]))
def test_code_in_a_repl_and_a_search_on_the_host_find_the_same(text: str, word: str) -> None:
    for found in (pattern(forms(word, "en")), exact(word), exact(word, any_case=True), anywhere(re.escape(word))):
        look = compiled({"pattern": {name: getattr(found, name) for name in found.__struct_fields__}})

        assert has(look, text) == (re.search(found.regex, text) is not None), (text, found)


@given(word=st.text(st.characters(categories=("Lu", "Ll", "Lo")), min_size=1, max_size=12))
def test_every_word_of_letters_is_found_where_it_stands_alone(word: str) -> None:
    for language in ("en", "de"):
        found = pattern(forms(word, language))

        assert word.lower() in forms(word, language)
        assert re.search(found.regex, word.lower())
