"""Citations as footnotes: the same source has one number, and no number breaks what it stands in."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from handrail.core.footnotes import MOST_SOURCES, FootnoteMark, footnotes, host_of, with_marks
from handrail.core.messages import Citation


def marked(text: str, *ends: int) -> str:
    """The text with a source for what ends at each place."""
    citations = [Citation(url=f"https://s{at}.example/", end=at) for at in ends]
    return with_marks(text, footnotes(text, citations).marks, lambda number: f"[{number}]")


def test_a_number_stands_at_the_end_of_the_words_that_its_source_supports() -> None:
    assert marked("Lisbon is old. It is sunny.", 13, 26) == "Lisbon is old[1]. It is sunny[2]."


def test_the_same_source_has_one_number() -> None:
    cited = [Citation(url="https://a.example", end=1), Citation(url="https://b.example", end=2)]
    found = footnotes("abc", [*cited, Citation(url="https://a.example", end=3)])
    assert [source.url for source in found.sources] == ["https://a.example", "https://b.example"]
    assert found.marks == (FootnoteMark(1, 1), FootnoteMark(2, 2), FootnoteMark(3, 1))


def test_a_source_for_no_part_of_the_text_is_listed_without_a_number_in_it() -> None:
    found = footnotes("abc", [Citation(title="A book")])
    assert (len(found.sources), found.marks) == (1, ())


@pytest.mark.parametrize(
    ("text", "end", "shown"),
    [
        ("Use `a b` here.", 7, "Use `a b`[1] here."),
        ("See [the page](https://x.example/y) now.", 20, "See [the page](https://x.example/y)[1] now."),
        ("See https://x.example/y now.", 12, "See https://x.example/y[1] now."),
        ("See <https://x.example/y> now.", 23, "See <https://x.example/y>[1] now."),
        ("One.\n\nTwo.", 6, "One.[1]\n\nTwo."),
        ("One.  \n", 7, "One.[1]  \n"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", 29, "| a | b |\n|---|---|\n| 1 | 2[1] |"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", 15, "| a | b[1] |\n|---|---|\n| 1 | 2 |"),
        ("So:\n```py\nx = 1\n```\nDone.", 14, "So:[1]\n```py\nx = 1\n```\nDone."),
        ("- one\n- two", 7, "- one[1]\n- two"),
        ("One\n---\nTwo", 6, "One[1]\n---\nTwo"),
        ("Short", 900, "Short[1]"),
        ("```\nonly code\n```", 9, "```\nonly code\n```"),
        ("", 0, ""),
    ],
)
def test_a_number_never_breaks_the_markdown_that_it_stands_in(text: str, end: int, shown: str) -> None:
    assert marked(text, end) == shown


@given(st.text(alphabet=st.sampled_from("ab` \n|-#>[]()~1.\té😀https:/<"), max_size=60), st.lists(st.integers(-3, 70)))
def test_the_text_around_the_numbers_is_always_the_text(text: str, ends: list[int]) -> None:
    found = footnotes(text, [Citation(title=str(at), end=at) for at in ends])
    assert all(0 <= mark.at <= len(text) for mark in found.marks)
    assert list(found.marks) == sorted(found.marks, key=lambda mark: (mark.at, mark.number))
    assert with_marks(text, found.marks, lambda number: "") == text


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.org/a?b=c", "example.org"),
        ("HTTP://Example.org", "example.org"),
        ("https://user@evil.example/", "evil.example"),
        ("https://bücher.example/", "xn--bcher-kva.example"),
        ("javascript:alert(1)", ""),
        ("java\nscript:alert(1)", ""),
        ("https://a.example/\nb", ""),
        ("data:text/html,<script>1</script>", ""),
        ("//example.org", ""),
        ("https://", ""),
        ("https://[::1", ""),
        ("https://evil.example\\@good.example/", ""),  # browsers go to evil.example
        ("https:\\\\evil.example", ""),
        ("file:///etc/passwd", ""),
    ],
)
def test_only_an_address_of_http_has_a_host_to_go_to(url: str, host: str) -> None:
    assert host_of(url) == host


@given(st.text())
def test_any_text_can_be_asked_for_its_host(url: str) -> None:
    host_of(url)


def test_of_too_many_sources_the_first_are_listed_and_the_others_counted() -> None:
    found = footnotes("text", [Citation(url=f"https://{n}.example", end=4) for n in range(MOST_SOURCES + 7)])
    assert (len(found.sources), found.left_out, len(found.marks)) == (MOST_SOURCES, 7, MOST_SOURCES)


@pytest.mark.parametrize("line", ["[" * 100_000, "`a" * 50_000, ">" * 100_000, "a b " * 25_000])
def test_a_thousand_numbers_of_one_long_line_are_placed_without_reading_it_a_thousand_times(line: str) -> None:
    citations = [Citation(url=f"https://{at % 90}.example", end=at * 97) for at in range(1_000)]
    found = footnotes(line, citations)
    assert with_marks(line, found.marks, lambda number: "") == line
