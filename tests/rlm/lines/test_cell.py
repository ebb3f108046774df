"""The answers of the program over lines: every number is what a plain count gives, and every line is cited."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from handrail.rlm.lines.cell.answer import answered
from handrail.rlm.lines.cell.find import grounded
from handrail.rlm.lines.program import program, search_for

LOG = """\
2026-03-01 10:00:01 INFO auth started, no errors so far
2026-03-01 10:00:02 ERROR billing card refused
2026-03-01 10:00:03 WARN auth slow
2026-03-01 10:20:00 ERROR mail cannot reach smtp.example.org
2026-03-01 11:00:30 ERROR billing timed out, error 504
2026-03-01 11:01:00 INFO terrors are no match
"""


def never(prompt: str) -> str:
    raise NotImplementedError


def answer(question: str, context: Any = LOG, ask: Any = never, **settings: Any) -> str:
    chosen: dict[str, Any] = {"name": "", "piece": 600, "passages": 3, "is_bound": True, **settings}
    return answered(msgspec.json.decode(msgspec.json.encode(search_for(question, **chosen))), context, ask)


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("How many ERROR lines are there?", '3 lines contain "ERROR". 1 more line has it in another form.\n'),
        ("How many INFO lines are there?", '2 lines contain "INFO".\n'),
        ("How many errors are there?", '4 lines contain "errors". Written as "ERROR" 3 lines, "error" 1 line.'),
        ("Wie viele Fehler gab es?", '4 Zeilen enthalten "error" (statt "Fehler", das in keiner Zeile steht).'),
        ("How many lines mention billing?", '2 lines contain "billing".'),
        ("How many warnings were there?", '1 line contains "warn" (for "warnings", which no line contains).'),
        ("How many dragons are there?", '0 lines contain "dragons".'),
        ("Wie viele Drachen gibt es?", '0 Zeilen enthalten "Drachen".'),
        ("How many ERROR lines are from billing?", '2 lines contain "ERROR" and "billing". Each by itself: "ERROR" 3'),
        ("How many dragons are in billing?", '0 lines contain "dragons" and "billing". Each by itself: "dragons" 0 l'),
        ("How many ERROR or WARN lines are there?", '4 lines contain "ERROR" or "WARN".'),
        ("How many lines do not contain INFO?", '4 lines do not contain "INFO".'),
        ("How many ERROR lines without billing?", '1 line contains "ERROR" and not "billing".'),
        ("How often does error occur?", '"error" occurs 5 times, in 4 lines.'),
        ("How many lines are there?", "There are 6 lines."),
        ("How many words are there?", f"There are {len(LOG.split())} words."),
        ("How many lines contain '504'?", '1 line contains "504".'),
        ("How many lines mention smtp.example.org?", '1 line contains "smtp.example.org".'),
        ("How many ERROR lines between 10:00 and 11:00?", '3 lines contain "ERROR" between 10:00 and 11:00 (both'),
        ("How many ERROR lines between 10:10 and 10:59?", '1 line contains "ERROR" between 10:10'),
        ("How many ERROR lines in lines 1-3?", '1 line contains "ERROR" between line 1 and line 3'),
        ("What is in line 2?", "1 line lies at line 2.\n\n- line 2: 2026-03-01 10:00:0"),
        ("Was steht in Zeile 2?", "1 Zeile liegt bei Zeile 2.\n\n- Zeile 2: 2026-03-01 10:00:0"),
        ("What is in line 99?", "0 lines lie at line 99."),
        (
            "How many ERROR lines neither mention billing nor smtp?",
            '0 lines contain "ERROR" and not "billing" or "smtp".',
        ),
        ("How many errors before 10:30?", "To answer this, values must be compared or calculated."),
        ("Which service failed first?", 'The first line with "error" (for "failed", which no line contains), by time'),
        ("Which was the last ERROR?", 'The last line with "ERROR", by timestamp:\n\n- line 5: '),
        ("Show the last 2 lines", "The last 2 lines, by timestamp:"),
        ("Which dragon was first?", '0 lines contain "dragon".'),
        ("Who is a dragon?", "No word of the question is in the context.\n\nIt begins:\n- line 1: 2026-03-01 10:00:01"),
    ],
)
def test_the_answer_begins_with(question: str, first: str) -> None:
    said = answer(question)

    assert said.startswith(first), said


def test_every_line_that_was_counted_is_cited_with_its_number() -> None:
    assert answer("How many ERROR lines are there?").split("\n\n")[1].split("\n") == [
        "- line 2: 2026-03-01 10:00:02 ERROR billing card refused",
        "- line 4: 2026-03-01 10:20:00 ERROR mail cannot reach smtp.example.org",
        "- line 5: 2026-03-01 11:00:30 ERROR billing timed out, error 504",
    ]


def test_of_many_lines_some_are_cited_and_the_rest_is_counted() -> None:
    said = answer("How many lines mention play?", "All work and no play.\n" * 5_000)

    assert said.startswith('5000 lines contain "play".') and said.endswith("- … and 4990 more lines")
    assert said.count("\n- line ") == 10


def test_a_question_that_names_a_file_is_about_that_file() -> None:
    files = {"logs/app.log": LOG, "logs/old.log": LOG * 2, "notes.txt": "see app.log\n"}

    assert answer("How many ERROR lines are in app.log?", files).startswith('3 lines contain "ERROR" in logs/app.log.')
    assert answer("How many lines does old.log have?", files) == "There are 12 lines in logs/old.log."
    assert answer("How many ERROR lines are there?", files).startswith(
        '9 lines contain "ERROR". They are in 2 of 3 texts. 3 more lines have it in another form.\n\n- logs/app.log, '
    )
    assert answer("How many files are there?", files) == "There are 3 files."
    assert answer("How many ERROR lines are in app.log?", LOG, name="app.log").startswith('3 lines contain "ERROR" in')


def test_one_line_in_one_of_two_files_is_told_in_the_singular() -> None:
    context = {"a.log": "ERROR one\n", "b.log": "INFO two\n"}
    assert answer("How many ERROR lines are there?", context).startswith(
        '1 line contains "ERROR". It is in 1 of 2 texts.'
    )
    assert answer("Wie viele ERROR-Zeilen oder ERROR gibt es?", context).count("Sie steht in 1 von 2 Texten.") == 1


def test_first_is_by_time_over_several_files_and_by_place_where_a_line_has_none() -> None:
    late, early = "2026-03-02 00:00:00 ERROR late\n", "2026-03-01 00:00:00 ERROR early\n"

    assert answer("Which ERROR was first?", [late, early]).endswith("- item 1, line 1: " + early.strip())
    assert answer("Which ERROR was first?", [late + "ERROR unknown\n", early]).endswith("line 1: " + late.strip())
    zones = "2026-03-01 02:00:00+02:00 ERROR a\n", "2026-03-01 01:00:00Z ERROR b\n"
    assert answer("Which ERROR was first?", list(zones)).endswith("- item 0, line 1: " + zones[0].strip())


def test_what_must_be_calculated_is_said_not_to_be_known_and_no_model_is_asked() -> None:
    said = answer("What is the average of the ERROR codes?")

    assert said.startswith("To answer this, values must be compared or calculated.")
    assert "- line 5: " in said or "- line 2: " in said


def test_of_two_questions_the_first_is_answered_and_that_is_said() -> None:
    said = answer("How many ERROR lines are there, and which came first?")

    assert said.startswith('3 lines contain "ERROR".')
    assert said.endswith("Only the first part of the question was answered; ask the rest by itself.")


def test_of_a_long_line_what_was_found_is_shown() -> None:
    said = answer("How many lines mention needle?", "x" * 9_000 + " needle " + "y" * 9_000)

    assert " needle " in said and len(said) < 600


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("Marta Quist", "Marta Quist"),
        ("The lighthouse was sold to Marta Quist.", "The lighthouse was sold to Marta Quist."),
        ("It was sold in 1911.\nAnd in 1912.", "It was sold in 1911."),
        ("It was sold in 1912.", ""),
        ("It was sold in 19.11", ""),
        ("Marta Quist sold the lighthouse.", ""),
        ("five", ""),
        ("the", ""),
    ],
)
def test_a_reply_counts_only_if_a_line_says_it(reply: str, said: str) -> None:
    assert grounded(reply, ["nothing", "The lighthouse was sold to Marta Quist in 1911."], "en") == said


def test_a_reply_that_leaves_out_a_negation_does_not_count() -> None:
    assert grounded("Mara did sell it", ["Mara did not sell it."], "en") == ""
    assert grounded("Mara did not sell it", ["Mara did not sell it."], "en") == "Mara did not sell it"


NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")


@given(
    reply=st.text(st.sampled_from("0123456789.,: sold lighthouse five\n"), max_size=60),
    line=st.text(st.sampled_from("0123456789.,: sold lighthouse"), max_size=60),
)
def test_no_number_of_a_reply_is_shown_that_stands_in_no_line(reply: str, line: str) -> None:
    shown = NUMBER.findall(grounded(reply, [line], "en"))

    assert set(shown) <= set(NUMBER.findall(line))


WORDS = [
    "error",
    "ERROR",
    "Errors",
    "terror",
    "error_code",
    "TimeoutError",
    "info",
    "errors.",
    "err",
    "FEHLER",
    "x-error",
]
LINES = st.lists(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), max_size=30)
ERROR = re.compile(r"(?:(?<![A-Za-z0-9])|(?<=[a-z])(?=[A-Z]))(?i:errors?)(?![A-Za-z0-9])")


class Held:
    """A text that is not in the REPL, read in small blocks."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.size = len(text)

    def read(self, start: int, length: int) -> str:
        return self._text[start : start + min(length, 7)]

    def search(self, pattern: str, limit: int, around: int) -> list[dict[str, int]]:
        found = [match.start() for match in re.finditer(pattern, self._text)][:limit]
        return [{"at": at, "line": self._text[:at].count("\n")} for at in found]


@given(lines=LINES, is_held=st.booleans(), ends=st.booleans())
def test_the_number_is_that_of_a_plain_count(lines: list[str], is_held: bool, ends: bool) -> None:
    text = "\n".join(lines) + ("\n" if ends else "")
    hits = [at for at, line in enumerate(text.split("\n"), 1) if ERROR.search(line)]
    said = answer("How many errors are there?", Held(text) if is_held else text)

    if not hits and "FEHLER" in text:
        assert said.startswith(f"{sum('FEHLER' in line for line in lines)} line") and 'for "errors"' in said
    else:
        assert said.split(" ")[0] == str(len(hits))
        assert re.findall(r"^- line (\d+):", said, re.MULTILINE) == [str(at) for at in hits[:10]]


@given(
    text=st.text(st.sampled_from("ab\n \r.é"), max_size=60),
    question=st.sampled_from(
        ["How many 'a' are there?", "How many lines do not contain 'a'?", "How many lines contain 'a' and 'b'?"]
    ),
)
def test_what_is_in_quotes_is_counted_as_it_is_written(text: str, question: str) -> None:
    lines = text.split("\n")[: -1 if text.endswith("\n") or not text else None]
    with_a = [line for line in lines if "a" in line]
    counts = [len(with_a), len(lines) - len(with_a), sum("b" in line for line in with_a)]
    wanted = counts[("not" in question) + ("'b'" in question) * 2]

    assert answer(question, text).split(" ")[0] == str(wanted)


def test_the_program_is_one_text_that_needs_nothing_of_ours() -> None:
    chosen: dict[str, Any] = {"name": "", "piece": 600, "passages": 3, "is_bound": True}
    source = program(search_for("How many ``` are there?", **chosen), "context_0")

    assert "handrail" not in source and "yield" not in source and "```" not in source
    compile(source, "cell", "exec")
