"""Many tools at the command line: what a turn offers, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.journal_fixtures import lines, run

TOOLS = """
from handrail import tool

def made(number):
    @tool(name=f"fact_{number}", description=f"Tell fact number {number}.")
    async def fact(of: str = "life") -> int:
        return number
    return fact

@tool(tags=("always",))
async def now() -> str:
    "The time."
    return "noon"

@tool
async def refund_payment(charge: str) -> str:
    "Give money back."
    return "refunded"

tools = [now, refund_payment, *(made(number) for number in range(30))]
"""
SCRIPT = """
[[reply]]
calls = [{ name = "find_tools", arguments = { query = "fact 17", count = 1 } }]

[[reply]]
calls = [{ name = "fact_17" }]

[[reply]]
text = "It is 17."
"""


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Each test has a module of this name in a folder of its own."""
    yield
    sys.modules.pop("many_tools", None)


def scene(folder: Path) -> tuple[str, ...]:
    (folder / "many_tools.py").write_text(TOOLS)
    (folder / "many.toml").write_text(SCRIPT)
    return ("--tools", "many_tools.py")


def offered(*arguments: str) -> list[list[str]]:
    events = lines(run(*arguments, "--json"))
    return [event["tools"] for event in events if event["type"] == "tools.offered"]


def test_a_search_shows_what_would_be_offered_how_well_it_fits_and_why(folder: Path) -> None:
    shown = run("tools", "search", "refund", "the", "payment", *scene(folder), "--offer-at-most", "10")

    first = shown.stdout.splitlines()[1].split()
    assert (first[0], first[2:]) == (
        "refund_payment",
        ["yes", "refund,", "payment,", "its", "name", "Give", "money", "back."],
    )
    assert float(first[1]) > 0
    assert "32 tools, and a turn may offer 10" in shown.stderr


def test_a_search_in_json_has_scores_and_says_what_is_left_out(folder: Path) -> None:
    found = lines(run("tools", "search", "fact number", *scene(folder), "--offer-at-most", "10", "--json"))

    assert len(found) == 20
    assert [each["offered"] for each in found] == [True] * 8 + [False] * 12
    assert found[0] == {"name": "fact_0", "score": found[0]["score"], "words": ["fact", "number"], "offered": True}
    assert lines(run("tools", "search", "time", *scene(folder), "--json", "--count", "1"))[0]["name"] == "now"


def test_with_few_tools_a_search_says_that_all_are_offered(folder: Path) -> None:
    shown, none = run("tools", "search", "fact", *scene(folder)), run("tools", "search", "xyzzy", *scene(folder))

    assert "all are offered" in shown.stderr
    assert (none.exit_code, none.stdout) == (0, "")
    assert "No tool has any of these words." in none.stderr


def test_a_search_without_tools_or_words_says_what_to_do(folder: Path) -> None:
    assert "--tools" in run("tools", "search", "fact").stderr
    assert run("tools", "search").exit_code == 2


def test_a_question_with_many_tools_is_offered_some_and_finds_the_rest(folder: Path) -> None:
    question = ("ask", *scene(folder), "-m", "scripted:many.toml", "refund this")

    some = offered(*question, "--offer-at-most", "10")
    every = offered(*question)

    assert some[0] == ["now", "read_output", "find_tools", "refund_payment"]
    assert some[1] == [*some[0], "fact_17"]
    assert len(every[0]) == 33


def test_a_configuration_says_how_many_tools_a_turn_offers_and_the_command_line_outdoes_it(folder: Path) -> None:
    question = ("ask", *scene(folder), "-m", "scripted:many.toml", "refund this")
    (folder / "handrail.toml").write_text("[offering]\nmost = 10\nfound = 2\n")

    assert len(offered(*question)[0]) == 4
    assert len(offered(*question, "--offer-at-most", "40")[0]) == 33


def test_a_run_that_is_cut_off_is_taken_up_with_the_same_offer(folder: Path) -> None:
    (folder / "short.toml").write_text('[[reply]]\ncalls = [{ name = "fact_3" }]\n')
    told = run("ask", *scene(folder), "-m", "scripted:short.toml", "--offer-at-most", "10", "hello").stderr
    (line,) = (line for line in told.splitlines() if "handrail resume" in line)
    assert "--offer-at-most 10" in line
    (folder / "short.toml").write_text('[[reply]]\ncalls = [{ name = "fact_3" }]\n[[reply]]\ntext = "done"\n')

    resumed = run(*line.partition("handrail ")[2].split(), "--json")

    assert [each["tools"] for each in lines(resumed) if each["type"] == "tools.offered"] == [
        ["now", "read_output", "find_tools", "fact_3"]
    ]
    assert "not the tools" not in resumed.stderr
