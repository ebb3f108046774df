"""The page says the same in both languages, has words for everything it says, and none that it does not say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import pytest

from tests.desk.page.page_sources import WEB, run_in_node, sources

FILES = sorted(path.stem for path in (WEB / "words").glob("*.js"))
_KEY = re.compile(r"""["'`]([a-z]+(?:\.[a-zA-Z0-9_-]+)+)["'`]""")
_BEGINNING = re.compile(r"`([a-z]+\.(?:[a-zA-Z0-9_-]+\.)*(?:[a-zA-Z0-9_-]+)?)\$\{")
_CALLED = re.compile(r"""\bt\(\s*["']([^"']+)["']""")
_COUNTED = re.compile(r"""\bcount\((?:[^()"'\n]|\([^()\n]*\))*?,\s*["']([a-z]+\.[\w.-]+)["']""")
SPEAKS = "((languages) => Object.defineProperty(globalThis, 'navigator', {value: {languages}}))"
_PLACE = re.compile(r"\{(\w+)\}")


@cache
def words(file: str) -> Mapping[str, Mapping[str, str]]:
    found: Mapping[str, Mapping[str, str]] = run_in_node(f"words/{file}.js", "module")
    return found


@cache
def code() -> str:
    return "\n".join(text for name, text in sources(".js").items() if not name.startswith("words/"))


@pytest.mark.parametrize("file", FILES)
def test_both_languages_have_the_same_keys_with_the_same_places_to_fill(file: str) -> None:
    en, de = words(file)["en"], words(file)["de"]
    assert list(en) == list(de)
    assert {key: sorted(set(_PLACE.findall(text))) for key, text in en.items()} == {
        key: sorted(set(_PLACE.findall(text))) for key, text in de.items()
    }
    assert all(text.strip() for text in (*en.values(), *de.values()))


@pytest.mark.parametrize("file", FILES)
def test_the_keys_of_a_file_begin_with_its_name_and_none_is_unused(file: str) -> None:
    used = set(_KEY.findall(code()))
    begun = tuple(_BEGINNING.findall(code()))
    keys = list(words(file)["en"])
    assert [key for key in keys if not key.startswith(f"{file}.")] == []
    single = {key: re.sub(r"\.(?:one|other)$", "", key) for key in keys}
    assert [key for key in keys if not ({key, single[key]} & used or key.startswith(begun))] == []


def test_everything_that_is_said_has_words() -> None:
    known = {key for file in FILES for key in words(file)["en"]}
    counted = {f"{key}.{form}" for key in _COUNTED.findall(code()) for form in ("one", "other")}
    assert {*_CALLED.findall(code()), *counted} - known == set()


@pytest.mark.parametrize(
    ("language", "expression", "said"),
    [
        ("en", "module.duration(12)", "12 µs"),
        ("en", "module.duration(1_234)", "1.2 ms"),
        ("en", "module.duration(250_000)", "250 ms"),
        ("de", "module.duration(1_260_000)", "1,3 s"),
        ("en", "module.duration(123_000_000)", "2 min 3 s"),
        ("en", "module.duration(3_600_000_000)", "1 h 0 min"),
        ("de", "module.number(1234567.5)", "1.234.567,5"),
        ("en", "module.size(1_536_000)", "1.5 MB"),
        ("en", "module.size(999)", "999 B"),
    ],
)
def test_numbers_are_written_as_the_language_does(language: str, expression: str, said: str) -> None:
    assert run_in_node("words.js", f"({SPEAKS}(given), module.setLanguage('{language}'), {expression})", []) == said


@pytest.mark.parametrize(
    ("spoken", "said"),
    [(["en-US"], "Mar 1, 2020"), (["de-DE", "en-AU"], "1 Mar 2020"), (["fr-FR"], "1 Mar 2020")],
)
def test_times_are_written_as_the_browser_does_if_it_speaks_the_language(spoken: list[str], said: str) -> None:
    when = "module.when(Date.UTC(2020, 2, 1, 12), Date.UTC(2026, 2, 1))"
    assert run_in_node("words.js", f"({SPEAKS}(given), module.setLanguage('en'), {when})", spoken) == said


def test_words_are_filled_in_and_counted() -> None:
    made = "module.add({en: {'a': '{who} has {n}', 'b.one': '{n} thing', 'b.other': '{n} things'}, de: {}})"
    said = "[module.t('a', {who: '{n}', n: 1200}), module.count(1, 'b'), module.count(0, 'b'), module.t('none')]"
    assert run_in_node("words.js", f"({made}, module.setLanguage('en'), {said})") == [
        "{n} has 1,200",
        "1 thing",
        "0 things",
        "none",
    ]
