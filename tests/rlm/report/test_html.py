"""The page of a run: whole, harmless, bounded, readable, and the same each time."""

from __future__ import annotations

import base64
import re
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from hypothesis import given, strategies as st

from handrail.rlm.report import ReportProof, ReportRun, render
from handrail.rlm.report.html import highlighted
from handrail.rlm.report.style import DARK, LIGHT
from handrail.rlm.report.tree import ReportBlock, ReportMessage, ReportQuery, ReportTurn
from tests.rlm.report.usages import usages

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&lt;</pre></details><style>*{}</style>"
    "\x1b[31mred\x1b[0m \u202egnp.exe\u202c zero\u200bwidth \u2028 \x00 ]]> <!-- --> ${x} {{y}}"
)

QUERY = ReportQuery(
    model="small",
    prompt=(ReportMessage("user", "What does it cost?"),),
    answer="41,200",
    seconds=1.5,
    used=usages(small=(1, 100, 20, 0.002)),
    run="r.1",
)
RUN = ReportRun(
    model="big",
    question="What is the total?",
    answer="82,400",
    turns=(
        ReportTurn(
            number=1,
            reply="I look.\n```repl\nprint(1)\n```",
            blocks=(ReportBlock(code="print(1)", stdout="1\n", queries=(QUERY, QUERY), names=(("x", "int"),)),),
            seconds=2.0,
        ),
        ReportTurn(
            number=2,
            reply="",
            blocks=(ReportBlock(code="1/0", error="ZeroDivisionError: division by zero"),),
            seconds=1.0,
        ),
        ReportTurn(number=3, reply="FINAL(82,400)", final="82,400", seconds=0.5),
    ),
    seconds=4.0,
    used=usages(big=(3, 1000, 200, 0.05), small=(2, 200, 40, 0.004)),
    id="r",
)

VOID = {"meta", "rect"}


class Reader(HTMLParser):
    """Reads a page strictly: what is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes.update(name for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.tags[tag] += 1

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def full_of(text: str) -> ReportRun:
    """A run that says this text wherever it can say anything."""
    said = (ReportMessage(text, text),)
    inner = ReportRun(
        model=text, question=text, answer=text, why=text, turns=(ReportTurn(number=1, reply=text, final=text),)
    )
    query = ReportQuery(
        model=text, prompt=said, answer=text, error=text, run=text, between=said, nested=replace(inner, notes=(text,))
    )
    block = ReportBlock(code=text, stdout=text, stderr=text, error=text, names=((text, text),), queries=(query,))
    turn = ReportTurn(number=1, reply=text, asked=said, blocks=(block,), final=text, notes=(text,))
    return ReportRun(
        model=text,
        question=text,
        answer=text,
        partial=True,
        why=text,
        turns=(turn,),
        used=usages(**{text: (), "other": ()}),
        facts=((text, text),),
        started=text,
        id=text,
        proof=ReportProof(text, 1, True),
        notes=(text,),
    )


SHAPE = read(render(full_of("x")))


@given(st.one_of(st.just(HOSTILE), st.text(st.characters(), max_size=60)))
def test_no_text_becomes_markup_or_steers_the_eye(text: str) -> None:
    page = render(full_of(f"x {text} x"))
    reader = read(page)
    allowed = SHAPE.tags + Counter(span=10**6, details=1, summary=1, pre=1, p=20, div=20, ul=1)
    assert not reader.tags - allowed
    assert set(reader.attributes) <= set(SHAPE.attributes)
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]", page
    )
    page.encode()


def test_hostile_text_is_shown_as_what_it_is() -> None:
    shown = "".join(read(render(full_of(HOSTILE))).texts)
    assert "<script>alert(1)</script><img src=x onerror=alert(1)>" in shown
    assert "\\x1b[31mred" in shown
    assert "\\u202egnp.exe\\u202c zero\\u200bwidth" in shown


def test_the_policy_of_the_page_allows_its_own_style_and_nothing_else() -> None:
    page = render(RUN)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    named = base64.b64encode(sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{named}'; base-uri 'none'; form-action 'none'"
    reader = read(page)
    assert not {"script", "link", "img", "iframe", "a", "form"} & set(reader.tags)
    assert not {"style", "src", "href", "onclick"} & set(reader.attributes)
    assert "url(" not in style and "@import" not in style
    assert page.index("Content-Security-Policy") < page.index("<style>")


def _tile(page: str, name: str) -> str:
    (value,) = re.findall(rf"<dt>{name}</dt><dd>([^<]*)</dd>", page)
    return str(value)


def test_the_numbers_add_up() -> None:
    page = render(RUN)
    found = {name: _tile(page, name) for name in ("Turns", "Sub-queries", "Tokens in", "Tokens out", "Cost", "Time")}
    assert found == {
        "Turns": "3",
        "Sub-queries": "2",
        "Tokens in": "1,200",
        "Tokens out": "240",
        "Cost": "$0.0540",
        "Time": "4.0 s",
    }
    bars = [(float(x), float(width)) for x, width in re.findall(r'<rect x="([\d.]+)%" width="([\d.]+)%"', page)]
    turns = [bars[0], bars[3], bars[4]]
    assert turns == [(0.0, 50.0), (50.0, 25.0), (75.0, 12.5)]


def test_a_price_that_nobody_knows_is_not_shown_as_nothing() -> None:
    assert _tile(render(replace(RUN, used=usages(big=(1, 2, 3)))), "Cost") == "–"


@pytest.mark.parametrize("seconds", [1e308, -1.0, 0.0])
def test_times_that_cannot_be_are_shown_without_an_error(seconds: float) -> None:
    turns = tuple(ReportTurn(number=number, reply="", seconds=seconds) for number in range(3))
    assert "Turn 2" in render(ReportRun(model="m", turns=turns, seconds=sum(turn.seconds for turn in turns)))


def test_the_same_run_gives_the_same_page() -> None:
    assert render(RUN) == render(RUN)


def test_a_run_without_an_answer_says_why() -> None:
    shown = "".join(read(render(replace(RUN, answer=None, why="the run reached its limit of 3 iterations"))).texts)
    assert "No answer" in shown
    assert "None is on record: the run reached its limit of 3 iterations" in shown


def test_a_partial_answer_is_called_one() -> None:
    shown = "".join(read(render(replace(RUN, partial=True, why="the run reached its limit of 1 US dollars"))).texts)
    assert "Partial answer" in shown
    assert "the run reached its limit of 1 US dollars" in shown


def test_the_proof_of_a_journal_is_named_with_whether_it_was_checked() -> None:
    shown = "".join(read(render(replace(RUN, proof=ReportProof("ab12", 1234, True)))).texts)
    assert "From a journal of 1,234 entries, checked, entry by entry; hash of all of them ab12" in shown
    assert "not checked" in render(replace(RUN, proof=ReportProof("ab12", 1234, False)))


def test_secrets_are_masked() -> None:
    key = "sk-ant-" + "a1" * 20
    assert key[:20] not in render(full_of(f"{key} and {'x' * 19_920} {key}"))


def test_a_huge_run_gives_a_page_of_bounded_size_that_says_what_is_missing() -> None:
    long = "x " * 500_000
    query = replace(QUERY, answer=long)
    turn = ReportTurn(number=1, reply=long, blocks=(ReportBlock(code=long, stdout=long, queries=(query,) * 300),))
    page = render(replace(RUN, turns=(turn,) * 600), text=1_000, page=250_000)
    shown = "".join(read(page).texts)
    assert "999,000 more characters are left out here" in shown
    assert "999,800 more characters are left out here" in shown
    assert "100 more sub-queries are left out here" in shown
    assert "300 more sub-queries are left out here" in shown
    assert "100 more turns are left out here" in shown
    assert len(page) < 2_000_000


def test_the_turns_of_a_long_run_are_folded_but_for_the_last() -> None:
    turns = tuple(replace(RUN.turns[0], number=number) for number in range(1, 31))
    page = render(replace(RUN, turns=turns))
    assert page.count('<details class="turn">') == 29
    assert page.count('<details class="turn" open>') == 1
    assert page.index('<details class="turn" open>') > page.index("<b>Turn 29</b>")


@given(st.text(st.sampled_from("ab_1 \n#'\"\\fr.()=é"), max_size=60))
def test_marking_python_changes_no_letter_of_it(code: str) -> None:
    assert re.sub(r"</?span[^>]*>", "", highlighted(code, lambda text: text)) == code


def test_python_is_marked_by_its_kinds_of_words() -> None:
    assert highlighted("for x in llm_query('a#b'):  # 3\n  y = 3.5", lambda text: text) == (
        '<span class="k">for</span> x <span class="k">in</span> <span class="h">llm_query</span>('
        '<span class="s">\'a#b\'</span>):  <span class="c"># 3</span>\n  y = <span class="n">3.5</span>'
    )


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


TEXT_ON = [
    *(
        (text, ground)
        for text in ("ink", "muted")
        for ground in ("ground", "card", "sunk", "tint", "warn-tint", "bad-tint")
    ),
    *((text, "sunk") for text in ("keyword", "string", "comment", "number", "query", "accent")),
    ("accent", "ground"),
    ("accent", "tint"),
    ("accent", "card"),
    ("card", "accent"),
    ("query", "query-tint"),
    ("warn", "warn-tint"),
    ("bad", "bad-tint"),
    ("bad", "ground"),
    ("bad", "card"),
]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), TEXT_ON)
def test_every_text_stands_out_from_its_ground_as_wcag_aa_asks(theme: str, text: str, ground: str) -> None:
    colours = {"light": LIGHT, "dark": DARK}[theme]
    low, high = sorted((_luminance(colours[text]), _luminance(colours[ground])))
    assert (high + 0.05) / (low + 0.05) >= 4.5
