"""The line that says how a question over a context stands: in any width, in a pipe, and where a person is asked."""

from __future__ import annotations

import asyncio
from itertools import chain, count

import pytest

from handrail.cli.rlm.live_display import DisplayPausingApprover, RlmLiveDisplay
from handrail.core.confirmation import Allow, Confirmation, Decision, Defer
from handrail.core.events import Notice
from handrail.rlm.progress import CellRan, CellRunning, IterationStarted, Progress, QueriesInFlight, RunSpent

RUN = "run_1"
STARTED = IterationStarted(run=RUN, index=3, of=30)
EVENTS: tuple[Progress, ...] = (
    STARTED,
    CellRunning(run=RUN, block=1, of=1, code="llm_query_batched(parts)"),
    QueriesInFlight(run=RUN, in_flight=12, done=28),
    RunSpent(run=RUN, tokens=18200, cost=0.0321),
)
WHOLE = "turn 3/30 · code runs · 40 queries, 12 in flight · 18,200 tokens · $0.0321 · 1 min 14 s"
QUESTION = Confirmation(
    request="confirm_1", run=RUN, call_id="1", tool="pay", description="", arguments={}, binds="", definition=""
)


def at(seconds: float, width: int = 120, step: float = 0.05) -> RlmLiveDisplay:
    """On a terminal, that many seconds after the beginning; each look at the clock takes a moment."""
    times = chain((0.0,), count(seconds, step))
    return RlmLiveDisplay(as_json=False, terminal=True, width=lambda: width, now=lambda: next(times))


def told(live: RlmLiveDisplay, *events: Progress | Notice) -> None:
    async def tell() -> None:
        for event in events:
            await live(event)

    asyncio.run(tell())


def test_the_line_says_the_turn_what_is_done_the_queries_and_what_was_spent(capsys: pytest.CaptureFixture[str]) -> None:
    told(live := at(74), *EVENTS)

    assert live.line() == WHOLE
    assert capsys.readouterr().err.rpartition("\r")[2] == WHOLE


@pytest.mark.parametrize("width", [3, 20, 40, 60, 75, 80, 85, 86, 87, 88, 100])
def test_it_never_wraps_and_numbers_stay_longer_than_words(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    told(at(0, width), *EVENTS)

    line = capsys.readouterr().err.rpartition("\r")[2]
    assert len(line) < width
    assert width < 75 or "40 queries, 12 in flight · 18,200 tokens · $0.0321 · 0 s" in line


def test_a_thousand_answers_at_once_do_not_wait_for_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    live = at(0, step=0.0001)
    told(live, STARTED, *(QueriesInFlight(run=RUN, in_flight=9, done=done) for done in range(1_000)))

    assert capsys.readouterr().err.count("\r") < 10
    assert "1,008 queries, 9 in flight" in live.line()


def test_in_a_pipe_each_turn_is_one_plain_line(capsys: pytest.CaptureFixture[str]) -> None:
    told(
        RlmLiveDisplay(as_json=False, terminal=False, now=lambda: 0.0),
        *EVENTS,
        CellRan(run=RUN, block=1, ending="ok", seconds=1),
    )

    assert capsys.readouterr().err == "turn 3/30 · the model writes · 0 tokens · 0 s\n"


def test_a_terminal_that_can_only_write_on_gets_plain_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    told(RlmLiveDisplay(as_json=False, now=lambda: 0.0), *EVENTS)

    assert capsys.readouterr().err == "turn 3/30 · the model writes · 0 tokens · 0 s\n"


def test_what_is_told_stands_on_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    told(at(0), STARTED, Notice(text="a\x1b[2Jb"))

    line = "turn 3/30 · the model writes · 0 tokens · 0 s"
    assert capsys.readouterr().err == f"\r{line}\r! a\\x1b[2Jb\n\r{line}"  # click leaves out the codes here


def test_nothing_is_written_while_a_person_is_asked_and_nothing_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    live = at(0)

    class Person:
        async def decide(self, question: Confirmation) -> Decision:
            capsys.readouterr()
            await live(STARTED)
            await live(Notice(text="meanwhile"))
            self.seen = capsys.readouterr().err
            return Allow("ada")

    person = Person()
    told(live, STARTED)
    assert asyncio.run(DisplayPausingApprover(person, live).decide(QUESTION)) == Allow("ada")

    assert person.seen == ""
    assert capsys.readouterr().err == "! meanwhile\n"


def test_what_is_left_for_later_is_noted_until_it_is_answered() -> None:
    answers: list[Decision] = [Defer(), Allow("ada")]

    class Person:
        async def decide(self, question: Confirmation) -> Decision:
            return answers.pop(0)

    live = at(0)
    aside = DisplayPausingApprover(Person(), live)

    asyncio.run(aside.decide(QUESTION))
    left = dict(live.waiting)
    asyncio.run(aside.decide(QUESTION))

    assert (left, live.waiting) == ({"confirm_1": QUESTION}, {})
