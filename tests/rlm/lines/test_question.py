"""What a question is read as: what is wanted, of which terms, in which span."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from handrail.rlm.lines.question import LineQuestion, LineSpan, read_question


def told(question: LineQuestion) -> str:
    """In short: what is wanted, `&` between groups, `|` inside of them, `!` before what may not be there."""
    groups = ["|".join(term.shown for term in group) for group in question.groups]
    return " ".join((question.operation, "&".join([*groups, *(f"!{term.shown}" for term in question.without)]))).strip()


@pytest.mark.parametrize(
    ("asked", "read"),
    [
        ("How many ERROR lines are there?", "count ERROR"),
        ("how many errors are there in the log", "count errors"),
        ("How many lines mention Frankfurt?", "count Frankfurt"),
        ("How many errors did the billing service have?", "count errors&billing"),
        ("How many errors or warnings were logged?", "count errors|warnings"),
        ("How many errors, warnings and crashes were there?", "count errors|warnings|crashes"),
        ("How many lines contain both error and billing?", "count error&billing"),
        ("How many lines contain error and billing?", "count error&billing"),
        ("How many lines contain 'connection refused'?", "count connection refused"),
        ('Count the lines with "GET /index".', "count GET /index"),
        ("How many lines do not contain INFO?", "count !INFO"),
        ("How many errors were not fixed?", "count errors&!fixed"),
        ("How many lines don't mention Ada?", "count !Ada"),
        ("What is the number of timeouts?", "count timeouts"),
        ("How often does gateway occur?", "times gateway"),
        ("How many times was the password wrong?", "times password&wrong"),
        ("Are there any crashes?", "count crashes"),
        ("How many errors are there, and which came first?", "count errors"),
        ("How many errors are there? Which came first?", "count errors"),
        ("Wie viele Fehler gab es und welcher war der erste?", "count Fehler"),
        ("Who sold it, and when was it sold?", "find sold|sold"),
        ("How many lines are there?", "size"),
        ("How many words are in the text?", "size"),
        ("Which service failed first?", "first failed"),
        ("When was the last login of Ada?", "last login&Ada"),
        ("Show the last 3 errors", "last errors"),
        ("Show all warnings.", "list warnings"),
        ("Which errors occurred?", "list errors"),
        ("Which lines mention billing?", "list billing"),
        ("Who sold the lighthouse?", "find sold&lighthouse"),
        ("What is the first name of Mrs Quist?", "find first&Mrs&Quist"),
        ("How many different users are there?", "compare different&users"),
        ("What is the average latency?", "compare average&latency"),
        ("Which service has the most errors?", "compare most&errors"),
        ("How many lines contain error but not timeout?", "count error&!timeout"),
        ("How many lines have neither error nor warning?", "count !error&!warning"),
        ("How many errors except timeouts were there?", "count errors&!timeouts"),
        ("Wie viele Fehler außer Timeouts gab es?", "count Fehler&!Timeouts"),
        ('How many lines contain "different"?', "count different"),
        ('Which lines contain "last login"?', "list last login"),
        ('How many lines contain "number of"?', "count number of"),
        ("What are the 3 last errors?", "last errors"),
        ("Show line 5.", "list"),
        ("What is in line 5?", "list"),
        ("How many errors were there before 10:00?", "compare errors&before&10:00"),
        ("Show the errors after 10:00", "compare errors&after&10:00"),
        ("How many requests took longer than 100 ms?", "compare requests&took&longer&100"),
        ("How many lines start with ERROR?", "compare start&ERROR"),
        ("How many lines are empty?", "compare empty"),
        ("How many lines contain at least two errors?", "compare least&two&errors"),
        ("Wie viele Zeilen sind leer?", "compare leer"),
        ("Wie viele Anfragen dauerten länger als 100 ms?", "compare Anfragen&dauerten&länger&100"),
        ("Wie viele Fehler gab es?", "count Fehler"),
        ("Wie viele Zeilen erwähnen Frankfurt?", "count Frankfurt"),
        ("Wie viel Fehler gab es?", "count Fehler"),
        ("Wie viele Fehler gab es im Dienst billing?", "count Fehler&billing"),
        ("Wie viele Zeilen enthalten ERROR nicht?", "count !ERROR"),
        ("Wie viele Fehler oder Warnungen gibt es?", "count Fehler|Warnungen"),
        ("Wie viele Zeilen enthalten keine Warnung?", "count !Warnung"),
        ("Wie oft kommt Berlin vor?", "times Berlin"),
        ("Gibt es Abstürze?", "count Abstürze"),
        ("Welcher Dienst ist zuerst ausgefallen?", "first ausgefallen"),
        ("Welcher Dienst ist zuletzt ausgefallen?", "last ausgefallen"),
        ("Zeige alle Fehler", "list Fehler"),
        ("Wie viele Zeilen hat der Text?", "size"),
        ("Wie viel kostet das Haus?", "find kostet&Haus"),
        ("Was ist der Durchschnitt der Laufzeiten?", "compare Durchschnitt&Laufzeiten"),
        ("", "find"),
        ("?!", "find"),
    ],
)
def test_a_question_is_read_as(asked: str, read: str) -> None:
    assert told(read_question(asked)) == read


@pytest.mark.parametrize(
    ("asked", "between"),
    [
        ("How many errors between 10:00 and 11:30?", LineSpan("time", "10:00", "11:30")),
        ("How many errors from 9:05 to 11:30:10?", LineSpan("time", "09:05", "11:30:10")),
        ("How many errors between 2026-03-01 and 2026-03-04?", LineSpan("date", "2026-03-01", "2026-03-04")),
        (
            "errors between 2026-03-01T10:00 and 2026-03-01 11:00",
            LineSpan("datetime", "2026-03-01 10:00", "2026-03-01 11:00"),
        ),
        ("How many errors are between line 10 and 20?", LineSpan("line", "10", "20")),
        ("How many errors are in lines 10-20?", LineSpan("line", "10", "20")),
        ("Wie viele Fehler gab es zwischen 10:00 und 11:00?", LineSpan("time", "10:00", "11:00")),
        ("Wie viele Fehler stehen zwischen Zeile 5 und Zeile 7?", LineSpan("line", "5", "7")),
        ("What is in line 5?", LineSpan("line", "5", "5")),
        ("Was steht in Zeile 12?", LineSpan("line", "12", "12")),
        ("How many errors between Berlin and Paris?", None),
    ],
)
def test_the_span_of_a_question_is_read(asked: str, between: LineSpan | None) -> None:
    assert read_question(asked).between == between


def test_how_many_lines_are_wanted_is_read() -> None:
    asked = ("first 3", "last 12", "first", "2 last")
    assert [read_question(f"Show the {which} errors").most for which in asked] == [3, 12, None, 2]


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    read = read_question(text)

    assert read.text == text
    assert read.operation not in ("count", "times") or read.groups or read.without
